"""What makes items by rule: of runs that ended, of failures that were ended, of artifacts, and of the vault's notes."""
