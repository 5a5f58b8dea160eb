"""Scripts that run in the target Python (3.6 and later). They import the standard library only, and nothing of ours."""
