"""The schemas of TPC-H, TPC-DS and Favorita as facts, dimensions and the attributes that are features."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import favorita
import polars as pl
import tpc

import frameboost as fb


@dataclass(frozen=True)
class Dimension:
    """A table that is joined: the file, the columns of the key on both sides, and the columns to read."""

    file: str
    left: tuple[str, ...]
    right: tuple[str, ...]
    columns: tuple[str, ...]
    prefix: str = ""

    @property
    def name(self) -> str:
        """What queries call it."""
        return f"{self.prefix.replace('.', '_')}{self.file}"


@dataclass(frozen=True)
class Schema:
    """Facts, what is joined to them in order, the target, and the facts' own features.

    ``folder`` returns that of the files, given a factor for their sizes: 1 is scale factor 1 of TPC, or 8 million
    facts.
    """

    folder: Callable[[float], Path]
    facts: str
    target: str
    features: tuple[str, ...]
    dimensions: tuple[Dimension, ...]

    def read(self, size: float) -> dict[str, pl.DataFrame]:
        """Return the tables by name, the facts (with a target) first, with the columns that are needed."""
        folder = self.folder(size)
        added = {each.prefix + column for each in self.dimensions for column in each.columns}
        own = [key for each in self.dimensions for key in each.left if key not in added]
        facts = pl.scan_parquet(folder / f"{self.facts}.parquet").drop_nulls(self.target)
        tables = {self.facts: facts.select(*dict.fromkeys([*own, *self.features, self.target])).collect()}
        for each in self.dimensions:
            tables[each.name] = pl.read_parquet(folder / f"{each.file}.parquet", columns=[*each.right, *each.columns])
        return tables

    def all_features(self) -> list[str]:
        """Return the features' names in the join: the facts' and all attributes that are no key of another table."""
        keys = {key for each in self.dimensions for key in each.left}
        attributes = [each.prefix + column for each in self.dimensions for column in each.columns]
        return [*self.features, *(name for name in attributes if name not in keys)]

    def star(self, tables: Mapping[str, Any]) -> Any:
        """Return the star of frames or relations."""
        star = tables[self.facts]
        for each in self.dimensions:
            keys = {"left_on": list(each.left), "right_on": list(each.right)}
            star = fb.join(star, tables[each.name], **keys, prefix=each.prefix, name=each.name)
        return star

    def joined(self, tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
        """Return the join by polars: the features and the target."""
        frame = tables[self.facts].lazy()
        for each in self.dimensions:
            own = tables[each.name].lazy().rename({name: each.prefix + name for name in each.columns})
            frame = frame.join(own, left_on=each.left, right_on=each.right, how="left", maintain_order="left")
        return frame.select(*self.all_features(), self.target).collect()


def _nation(prefix: str, key: str) -> tuple[Dimension, Dimension]:
    return (
        Dimension("nation", (key,), ("n_nationkey",), ("n_name", "n_regionkey"), prefix),
        Dimension("region", (f"{prefix}n_regionkey",), ("r_regionkey",), ("r_name",), prefix),
    )


TPCH = Schema(
    lambda size: tpc.tables("tpch", size), "lineitem", "l_extendedprice",
    ("l_linenumber", "l_quantity", "l_discount", "l_tax", "l_returnflag", "l_linestatus", "l_shipdate", "l_commitdate",
     "l_receiptdate", "l_shipinstruct", "l_shipmode"),
    (
        Dimension("orders", ("l_orderkey",), ("o_orderkey",), ("o_custkey", "o_orderstatus", "o_totalprice",
                  "o_orderdate", "o_orderpriority", "o_clerk")),
        Dimension("customer", ("o_custkey",), ("c_custkey",), ("c_nationkey", "c_acctbal", "c_mktsegment")),
        *_nation("customer.", "c_nationkey"),
        Dimension("part", ("l_partkey",), ("p_partkey",), ("p_mfgr", "p_brand", "p_type", "p_size", "p_container",
                  "p_retailprice")),
        Dimension("supplier", ("l_suppkey",), ("s_suppkey",), ("s_nationkey", "s_acctbal")),
        *_nation("supplier.", "s_nationkey"),
        Dimension("partsupp", ("l_partkey", "l_suppkey"), ("ps_partkey", "ps_suppkey"), ("ps_availqty",
                  "ps_supplycost")),
    ),
)  # fmt: skip

_DEMOGRAPHICS = ("cd_gender", "cd_marital_status", "cd_education_status", "cd_purchase_estimate", "cd_credit_rating",
                 "cd_dep_count", "cd_dep_employed_count", "cd_dep_college_count")  # fmt: skip
TPCDS = Schema(
    lambda size: tpc.tables("tpcds", size), "store_sales", "ss_net_profit",
    ("ss_quantity", "ss_wholesale_cost", "ss_list_price", "ss_ext_discount_amt"),
    (
        Dimension("date_dim", ("ss_sold_date_sk",), ("d_date_sk",), ("d_date", "d_year", "d_dow", "d_moy", "d_dom",
                  "d_qoy", "d_week_seq", "d_day_name", "d_holiday", "d_weekend", "d_following_holiday")),
        Dimension("time_dim", ("ss_sold_time_sk",), ("t_time_sk",), ("t_hour", "t_minute", "t_am_pm", "t_shift",
                  "t_sub_shift", "t_meal_time")),
        Dimension("item", ("ss_item_sk",), ("i_item_sk",), ("i_rec_start_date", "i_current_price", "i_wholesale_cost",
                  "i_brand", "i_class", "i_category", "i_manufact_id", "i_size", "i_color", "i_units", "i_manager_id")),
        Dimension("store", ("ss_store_sk",), ("s_store_sk",), ("s_number_employees", "s_floor_space", "s_hours",
                  "s_market_id", "s_city", "s_tax_percentage")),
        Dimension("promotion", ("ss_promo_sk",), ("p_promo_sk",), ("p_promo_name", "p_channel_dmail",
                  "p_channel_catalog", "p_channel_event", "p_channel_demo")),
        Dimension("household_demographics", ("ss_hdemo_sk",), ("hd_demo_sk",), ("hd_income_band_sk",
                  "hd_buy_potential", "hd_dep_count", "hd_vehicle_count")),
        Dimension("income_band", ("hd_income_band_sk",), ("ib_income_band_sk",), ("ib_lower_bound",
                  "ib_upper_bound")),
        Dimension("customer_demographics", ("ss_cdemo_sk",), ("cd_demo_sk",), _DEMOGRAPHICS),
        Dimension("customer", ("ss_customer_sk",), ("c_customer_sk",), ("c_current_cdemo_sk", "c_current_addr_sk",
                  "c_salutation", "c_preferred_cust_flag", "c_birth_day", "c_birth_month", "c_birth_year",
                  "c_birth_country")),
        Dimension("customer_demographics", ("c_current_cdemo_sk",), ("cd_demo_sk",), _DEMOGRAPHICS, "current."),
        Dimension("customer_address", ("c_current_addr_sk",), ("ca_address_sk",), ("ca_city", "ca_state",
                  "ca_gmt_offset", "ca_location_type")),
    ),
)  # fmt: skip

FAVORITA = Schema(
    lambda size: favorita.tables(size), "sales", "unit_sales", ("onpromotion",),
    (
        Dimension("items", ("item_nbr",), ("item_nbr",), ("family", "class", "perishable")),
        Dimension("stores", ("store_nbr",), ("store_nbr",), ("city", "state", "type", "cluster")),
        Dimension("transactions", ("date", "store_nbr"), ("date", "store_nbr"), ("transactions",)),
        Dimension("oil", ("date",), ("date",), ("dcoilwtico",)),
        Dimension("holidays", ("date",), ("date",), ("type", "locale", "transferred"), "holiday."),
        Dimension("dates", ("date",), ("date",), ("year", "month", "day", "weekday", "payday")),
    ),
)  # fmt: skip

SCHEMAS = {"tpch": TPCH, "tpcds": TPCDS, "favorita": FAVORITA}
