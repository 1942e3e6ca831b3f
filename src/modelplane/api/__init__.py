"""The kinds of the API: types, defaults, bounds, rules. Imports nothing else of ours."""
