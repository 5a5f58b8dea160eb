"""What known programs and files print: one pure module each, text in, claims out, for probes and pasted text alike.

A reader takes the `Source` of the text and hands it on with each claim; where that source has a line (pasted text),
a claim carries the line it was read from. A reader knows a layout; what a value means is the business of rules.
"""
