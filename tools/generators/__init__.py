"""Turns the rows in spec/ into C++: one module per kind of row."""
