# call: @
# set: TZ=Europe/Vienna
"""The time zone."""
import time

print(time.tzname, time.timezone, time.daylight, time.strftime("%H:%M %Z", time.localtime(0)))
