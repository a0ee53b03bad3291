"""Trees for several outputs: grown once, with a tree of the same splits for each output.

The trees of a growth differ in their values, gains and covers, which are those of their own output: leaf values
−G_k/(H_k+λ), and gains whose sum over the outputs is the gain of the split. So all that reads trees of one output reads
them, and what scores rows may walk once for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from frameboost.engines.contract import Engine
from frameboost.losses.loss import Loss
from frameboost.parameters.parameters import Parameters
from frameboost.splits.gain import bounded_weights
from frameboost.splits.split import FloatArray, Penalties, Stats
from frameboost.splits.vector_kernels import gains_of_outputs
from frameboost.training.constraints import Constraints
from frameboost.training.gradients import Renewal
from frameboost.training.grower import GrownTree, Moves, TreeGrower, tree_of
from frameboost.training.node import OpenNode
from frameboost.training.splitter import SplitSearch
from frameboost.trees.linear_leaf import LinearLeaf
from frameboost.trees.tree import Tree

__all__ = ["VectorTreeGrower", "is_for_all_outputs"]


def is_for_all_outputs(parameters: Parameters, loss: Loss) -> bool:
    """Whether a fit grows trees for all outputs at once, of which there are several."""
    return parameters.multi_strategy == "multi_output_tree" and loss.n_outputs > 1


class VectorTreeGrower:
    """Grows trees for all outputs at once, and adds their leaf values to the margins.

    Attributes
    ----------
    shrinkage
        The factor of the leaf values of the next trees.

    Parameters
    ----------
    engine
        The engine over the training rows, a `frameboost.engines.vector_contract.VectorEngine`.
    search
        The split search over its columns.
    parameters, penalties
        Shape and regularisation of the trees.
    constraints
        Constraints on the features of a path.
    followers
        Engines over held-out rows.
    """

    def __init__(
        self,
        engine: Engine,
        search: SplitSearch,
        parameters: Parameters,
        penalties: Penalties,
        constraints: Constraints,
        followers: Sequence[Engine] = (),
    ) -> None:
        self._engine, self._engines, self._penalties = engine, (engine, *followers), penalties
        self._grower = TreeGrower(engine, search, parameters, constraints, followers)
        self.shrinkage = self._grower.shrinkage

    def grow(
        self, root_stats: Sequence[Stats], margins: Sequence[str], renewals: Mapping[int, Renewal]
    ) -> list[GrownTree]:
        """Grow the tree that the engine has started; return a tree for each output.

        Parameters
        ----------
        root_stats
            G and H of all rows, for each output.
        margins
            The names of the margins.
        renewals
            The leaf values by output, where they are not −G/(H+λ).
        """
        outputs = np.array(root_stats)
        root = OpenNode(0, 0, Stats(*outputs.sum(axis=0).tolist()), outputs=outputs)
        nodes, steps, leaf_of = self._grower.grow_nodes(root, ahead=not renewals)
        sums = np.stack([_outputs(node) for node in nodes])
        grown = []
        for output, tree in enumerate(self._trees(nodes, sums)):
            values = self._values(sums[:, output])
            if output in renewals:
                self._renew(values, nodes, renewals[output])
            of_node = {node.id: value for node, value in zip(nodes, values, strict=True)}
            of_rows = {id_: of_node[leaf.id] for id_, leaf in leaf_of.items()}
            for engine in self._engines:
                engine.add_leaf_values(of_rows, margins[output])
            tree = replace(tree, value=tuple(values), output=output)
            grown.append(GrownTree(tree, margins[output], partial(_calls, steps, of_rows)))
        for node in nodes:
            node.sibling = None  # breaks the reference cycle of two siblings, so that they are freed at once
        return grown

    def _values(self, sums: FloatArray) -> list[float]:
        """Return the values of nodes in an output, shrunk, by its G and H; 0 where H is below ``min_child_weight``."""
        p, no_bounds = self._penalties, np.tile([-np.inf, np.inf], (len(sums), 1))
        G, H = np.ascontiguousarray(sums[:, 0]), np.ascontiguousarray(sums[:, 1])
        weights = bounded_weights(G, H, no_bounds, p.reg_lambda, p.reg_alpha, p.max_delta_step, p.min_child_weight)
        values: list[float] = (weights * self.shrinkage + 0.0).tolist()  # + 0.0 turns -0.0 into 0.0
        return values

    def _trees(self, nodes: Sequence[OpenNode], sums: FloatArray) -> list[Tree]:
        """Return the tree of each output, with its own gains and covers, still without values."""
        p = self._penalties
        gains = np.zeros(sums.shape[:2])
        for index, node in enumerate(nodes):
            if node.left is not None:
                gains[index] = gains_of_outputs(
                    _outputs(node.left), sums[index], p.reg_lambda, p.reg_alpha, p.max_delta_step, p.min_child_weight
                )
        splits = tree_of(nodes, 0)
        return [
            replace(splits, gain=tuple(gains[:, output].tolist()), cover=tuple(sums[:, output, 1].tolist()))
            for output in range(sums.shape[1])
        ]

    def _renew(self, values: list[float], nodes: Sequence[OpenNode], renewal: Renewal) -> None:
        """Set the values of leaves to quantiles of the residuals of an output."""
        quantiles = self._engine.node_quantiles(renewal.residual, renewal.weight, renewal.alpha)
        for index, node in enumerate(nodes):
            if node.left is None and node.id in quantiles:
                values[index] = quantiles[node.id] * self.shrinkage + 0.0


def _outputs(node: OpenNode) -> FloatArray:
    assert node.outputs is not None
    return node.outputs


def _calls(
    steps: Sequence[Moves], values: Mapping[int, float]
) -> tuple[Sequence[Moves], Mapping[int, float], Mapping[int, LinearLeaf]]:
    return steps, values, {}
