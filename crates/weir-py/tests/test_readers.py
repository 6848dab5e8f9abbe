"""DuckDB, Polars, pandas, and the types of the package."""

import pathlib

import duckdb
import pandas
import polars as pl
import pytest
from conftest import TOP

import weir
from weir._polars import pushed
from weir._stubs import stub


def test_readers_of_arrow_take_results(first_light):
    result = weir.read(first_light).flows()
    count = len(list(result))
    assert pl.DataFrame(result).height == count
    assert len(pl.from_arrow(result)) == count
    assert len(pandas.DataFrame.from_arrow(result)) == count
    assert len(result.to_pandas()) == count
    assert duckdb.sql("select count(*) from result").fetchall() == [(count,)]
    assert duckdb.sql("select count(*) from result").fetchall() == [(count,)], "each query reads anew"


def test_captures_are_tables_of_duckdb(first_light):
    con = weir.register_duckdb(duckdb.connect())
    query = f"""
        select t.server_name, f.orig_bytes from weir_tls('{first_light}') t
        join weir_flows('{first_light}', 'tls', columns := 'uid,orig_bytes') f using (uid)
        where t.server_name like 'shop%' and t.server_name <> 'weir_tls(''x'')'
    """
    rows = con.sql(query).fetchall()
    assert [name for name, _ in rows] == ["shop.example.net"] and rows[0][1] > 0
    with pytest.raises(weir.FilterError):
        con.sql(f"from weir_tls('{first_light}', 'tls.sni == 4')")


def test_conditions_of_polars_become_filters(first_light):
    column = pl.col
    assert pushed("flows", (column("orig_bytes") > 100) & column("service").is_null()) == "(conn.orig_bytes > 100)"
    both = pushed("flows", (column("orig_bytes") > 100) | (column("resp_bytes") <= 7))
    assert both == "((conn.orig_bytes > 100) or (conn.resp_bytes <= 7))"
    assert pushed("flows", (column("orig_bytes") > 100) | column("service").is_null()) == ""
    assert pushed("flows", 100 < column("orig_bytes")) == "(conn.orig_bytes > 100)"
    assert "tls.sni ==" in pushed("tls", column("server_name") == "shop.example.net")
    assert pushed("tls", column("server_name") == 'a"b') == ""


# Comparisons with 0 never hold: the compiler of filters warns of those.
@pytest.mark.filterwarnings("ignore::weir.WeirWarning")
@pytest.mark.parametrize("kind", ["flows", "tls", "dns", "http", "packets"])
def test_a_lazy_frame_has_the_rows_of_a_table(kind):
    files = [str(path) for path in sorted((TOP / "examples").glob("*.pcap"))]
    whole = weir.read(*files).ask(kind).to_polars()
    lazy = weir.scan(files, kind)
    assert lazy.collect().equals(whole)
    assert lazy.head(3).collect().equals(whole.head(3))
    assert lazy.select(pl.len()).collect().item() == whole.height
    ports = [name for name in whole.columns if whole.schema[name] == pl.UInt64 and whole[name].n_unique() > 1]
    for name in ports[:1]:
        condition = pl.col(name) >= whole[name].median()
        assert lazy.head(20).filter(condition).collect().equals(whole.head(20).filter(condition))
        assert lazy.filter(condition).head(3).collect().equals(whole.filter(condition).head(3))
        own = weir.scan(files, kind, limit=20).filter(condition)
        assert own.collect().equals(whole.head(20).filter(condition))
    for name, dtype in whole.schema.items():
        values = whole[name].drop_nulls()
        if dtype not in (pl.String, pl.UInt64) or values.is_empty():
            continue
        value = values[len(values) // 2]
        conditions = [pl.col(name) == value]
        if dtype == pl.UInt64:
            conditions += [pl.col(name) >= value, pl.col(name) < value]
        for condition in conditions:
            expected = whole.filter(condition).select("ts", name)
            assert lazy.filter(condition).select("ts", name).collect().equals(expected), (kind, name, str(condition))


def test_the_questions_of_a_frame_are_explained(first_light):
    tls = weir.scan(first_light, "tls", "tls").filter((pl.col("server_name") == "shop.example.net") & pl.col("resumed"))
    flows = weir.scan(first_light, "flows").filter(pl.col("orig_bytes") > 100)
    frame = tls.join(flows, on="uid").select("server_name", "orig_bytes")
    text = weir.explain(frame)
    assert "conn.orig_bytes > 100" in text and 'tls.sni == "shop.example.net"' in text and "program" in text
    assert "'server_name'" in text and "'ja4'" not in text
    assert frame.collect().height == 0, "the frame itself has rows as before"
    assert tls.select(pl.len()).collect().item() == 0 and flows.collect().height > 0


def test_stubs_have_all_kinds():
    own = pathlib.Path(weir.__file__).with_name("_kinds.pyi")
    assert own.read_text() == stub(), "python -m weir._stubs > crates/weir-py/python/weir/_kinds.pyi"
