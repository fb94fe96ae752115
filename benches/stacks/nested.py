# Calls of Python functions, for the seconds in the second argument.
import json, sys, time

def leaf(n):
    return sum(i * i for i in range(n)) + len(json.dumps(list(range(200))))

def outer(n):
    return sorted((leaf(100 + i) for i in range(n)), key=lambda x: -x)

end = time.monotonic() + int(sys.argv[2])
while time.monotonic() < end:
    outer(20)
