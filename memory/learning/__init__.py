"""Turn what was observed into evidence, advice and prevention. Pure: no store, no clock, no chance."""
