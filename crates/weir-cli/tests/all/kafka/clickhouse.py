"""Runs examples/fleet/clickhouse.sql over the messages of a folder: `python3 clickhouse.py FILE.sql FOLDER`.

The engine without a server (chdb) has no consumers of Kafka: a table with the columns of the consumer's, also the virtual ones, stands for
it. `FOLDER/N.arrows` are the messages, `FOLDER/N.json` their headers. Prints counts as JSON.
"""

import glob
import json
import re
import sys

from chdb import session

script, folder = sys.argv[1:]
text = re.sub(r"--.*", "", open(script).read())
virtual = "`_headers.name` Array(String), `_headers.value` Array(String)"
text = re.sub(r"\)\s*ENGINE = Kafka\s+SETTINGS [^;]*;", f", {virtual}) ENGINE = Null;", text)
assert "ENGINE = Null" in text
text = text.replace("    *,\n", "    * EXCEPT (`_headers.name`, `_headers.value`),\n")
text = text.replace("CREATE DATABASE IF NOT EXISTS weir", "CREATE DATABASE IF NOT EXISTS weir ENGINE = Atomic")

database = session.Session()
for statement in text.split(";"):
    if statement.strip():
        database.query(statement)
columns = json.loads(str(database.query("SELECT groupArray(name) AS names FROM system.columns "
                                        "WHERE table = 'conn_queue' AND name NOT LIKE '\\\\_headers%'", "JSONEachRow")))["names"]
names = ", ".join(f"`{name}`" for name in columns)
for path in sorted(glob.glob(f"{folder}/*.arrows")):
    headers = json.load(open(path.replace(".arrows", ".json")))
    keys, values = list(headers), [headers[key] for key in headers]
    database.query(f"INSERT INTO weir.conn_queue ({names}, `_headers.name`, `_headers.value`) "
                   f"SELECT {names}, {keys}, {values} FROM file('{path}', 'ArrowStream')")
print(database.query("""
    SELECT toUInt32(count()) AS rows, toUInt32(uniqExact(uid)) AS uids, groupUniqArray(run) AS runs,
        toUInt32(max(sequence) + 1 - uniqExact(sequence)) AS lost, groupUniqArray(sensor) AS sensors
    FROM weir.conn FINAL""", "JSONEachRow"))
