"""Ordinary Dask DataFrame code; nothing in it knows of this package."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import dask.dataframe as dd


def revenue_by_customer(tables: Path) -> dd.DataFrame:
    """Ask which customers brought the most revenue in a few years, by year of order.

    Parameters
    ----------
    tables : Path
        Folder with the TPC-H tables customer, orders and lineitem.

    Returns
    -------
    dask.dataframe.DataFrame
        Columns ``custkey``, ``name``, ``segment``, ``year``, ``revenue``, ``items``, from the
        highest revenue down.
    """

    def read(table: str, columns: list[str]) -> dd.DataFrame:
        frame = dd.read_parquet(tables / table, columns=columns)
        return frame.rename(columns=lambda label: label.split("_", 1)[1])

    lineitem = read("lineitem", ["l_orderkey", "l_extendedprice", "l_discount", "l_shipdate"])
    orders = read("orders", ["o_orderkey", "o_custkey", "o_orderdate"])
    customer = read("customer", ["c_custkey", "c_name", "c_mktsegment"])

    lineitem = lineitem[lineitem.shipdate >= date(1993, 1, 1)]
    orders = orders[orders.orderdate < date(1998, 1, 1)]
    price = lineitem.extendedprice.astype("float64")
    lineitem = lineitem.assign(revenue=price * (1 - lineitem.discount.astype("float64")))

    joined = lineitem[["orderkey", "revenue"]].merge(orders, on="orderkey")
    joined = joined.merge(customer, on="custkey")
    joined = joined.assign(year=joined.orderdate.dt.year)
    grouped = joined.groupby(["custkey", "name", "mktsegment", "year"], sort=False)
    result = grouped.agg(
        {"revenue": ["sum", "count"]}, split_out=joined.npartitions, shuffle_method=None
    )
    result.columns = ["revenue", "items"]
    result = result.reset_index().rename(columns={"mktsegment": "segment"})
    return result.sort_values(["revenue", "custkey", "year"], ascending=[False, True, True])
