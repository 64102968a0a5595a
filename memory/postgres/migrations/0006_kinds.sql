-- What the makers of knowledge look up: artifacts that were marked for the index, and the items made from notes.

create index journal_by_marked_artifact on journal (tenant, scope, position)
  where kind = 'execution_learned' and payload @? '$.indexed[*]';
create index items_of_notes on items (tenant, id) where level = 'R';
