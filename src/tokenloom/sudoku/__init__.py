"""Sudoku, one vertical: rules and solver, data, network, recipes, solving, evaluation and commands.

It is built on the library as any other package would be: its parts are found through entry points alone.
"""
