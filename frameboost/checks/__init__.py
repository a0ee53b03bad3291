"""Argument checks that every other package uses, and the text of error messages.

- `arguments`: the arguments of public functions, by name
- `json_files`: JSON files that hold models, and their binary form
- `messages`: values and names in messages, cut to a length
"""
