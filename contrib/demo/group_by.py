"""The program of the demonstration's table: import pandas and group a thousand rows."""

import pandas  # type: ignore

frame = pandas.DataFrame({"key": [n % 7 for n in range(1000)], "value": range(1000)})
print(frame.groupby("key")["value"].sum().to_dict())
