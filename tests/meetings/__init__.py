"""Meetings: parts of the package that are right alone, put together.

A *meeting* is one value of each factor of `table.FACTORS`: how the rows are stored, what the columns hold, the loss,
what else the fit is told, how trees grow, which engine sums, how the model is made, what happens to it afterwards, and
what reads it.

A covering array (`covering`) chooses few meetings such that every two values that go together meet at least once, and
every three of the commonest. `journey.check` carries a meeting out and holds it to properties that need no stored
value: the same rows give the same model in whatever container, a round trip keeps everything, the model learns what is
in the rows, and every reader scores alike. A refusal by a `FrameboostError` is an answer as well; but a value that is
always refused would test nothing, so their share is bounded.

A fault that is found becomes a value in the table, not a test.

- `table`: the factors, their values, and which values do not go together
- `covering`: the choice of meetings
- `rows`: the rows as a polars frame, and as what else `fit` takes
- `journey`: a meeting from the rows to the scores
"""
