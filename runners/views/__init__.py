"""The training interfaces of other libraries, over the same engine."""
