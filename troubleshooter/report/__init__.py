"""A report as text, on a terminal, as JSON. Sees `model` only; every foreign text is cleaned before it shows."""
