"""The stages that run on ranks, as Dask expressions."""

from dask_rcylon.stages.join import JoinStage
from dask_rcylon.stages.set_index import SetIndexStage
from dask_rcylon.stages.shuffle import ShuffleStage
from dask_rcylon.stages.sort import SortStage
from dask_rcylon.stages.stage import Stage

__all__ = ["JoinStage", "SetIndexStage", "ShuffleStage", "SortStage", "Stage"]
