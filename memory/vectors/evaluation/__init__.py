"""How good a search is, measured on questions whose right answers are known."""
