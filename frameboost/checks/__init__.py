"""Checks that every other package uses, and the text of error messages.

- `arguments`: the arguments of public functions, by name
- `json_fields`: JSON files that hold models
- `ubjson`: their binary form
- `messages`: values and names in messages, cut to a length
"""
