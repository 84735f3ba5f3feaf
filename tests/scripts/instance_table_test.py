"""scripts/instance_table: per-layer checkpointing, the working set, rows of a table, and floors on a small graph."""

import importlib.machinery
import importlib.util
import os
import sys
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
SCRIPTS = Path(os.environ.get("PLIMSOLL_SOURCE_DIR", Path(__file__).resolve().parents[2])) / "scripts"
MIB = 1 << 20


def load(name):
    loader = importlib.machinery.SourceFileLoader(name, str(SCRIPTS / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


TABLE = load("instance_table")
PUBLISHED = TABLE.GRAPHS


def chain(layers, ops):
    """Layers of so many ops in a row: 1 MiB each, a gradient reads the input of its op, and nothing is overwritten."""
    net = PUBLISHED.Net(1)
    net.seconds = lambda flops, elements: 1.0
    x = net.feed(MIB // 4)
    for layer in range(layers):
        for op in range(ops):
            x = net.layer("linear", f"h.{layer}.{op}", [x], MIB // 4, 0, "inputs")
    net.finish(x)
    return net.instance()


class PerLayer(unittest.TestCase):
    def test_replays_are_the_layers_before_their_first_gradients(self):
        instance = chain(2, 4)
        nodes = instance["nodes"]
        replays = TABLE.per_layer(instance)
        self.assertEqual(len(replays), 8)
        for layer in range(2):
            first = next(i for i, node in enumerate(nodes) if len(node) > 4 and node[1].startswith(f"h.{layer}."))
            again = [node for node, before in replays if before == first]
            self.assertEqual([nodes[node][1] for node in again], [f"h.{layer}.{op}" for op in range(4)])

    def test_bytes_and_seconds_of_a_chain(self):
        for layers in (2, 3, 6):
            # The most is there when the last op of the last layer runs again: the inputs of all layers, the four results of
            # this one, and the gradient that comes in.
            live, seconds = TABLE.per_layer_figures(chain(layers, 4))
            self.assertEqual(live, (layers + 5) * MIB)
            self.assertEqual(seconds, 4 * layers * 3 + 1)
            keep = TABLE.CHECK.replayed(chain(layers, 4), [])
            self.assertEqual(keep, ((4 * layers + 2) * MIB, 4 * layers * 2 + 1))

    def test_the_model_line_decides_where_no_node_is_named(self):
        instance = chain(3, 5)
        expected = TABLE.per_layer(instance)
        for node in instance["nodes"]:
            del node[4:]
        self.assertEqual(TABLE.per_layer(instance), expected)

    def test_graphs_without_repeated_layers_have_none(self):
        for instance in (chain(1, 8), chain(6, 3), PUBLISHED.vgg_16().instance(), PUBLISHED.unet().instance()):
            self.assertIsNone(TABLE.per_layer(instance))

    def test_each_layer_of_the_published_graphs_runs_again(self):
        for name, layers in (("bert-base", 12), ("vit-b", 12), ("encoder-decoder", 24), ("resnet-50", 16), ("dense-moe", 16)):
            instance = PUBLISHED.NETWORKS[name]().instance()
            replays = TABLE.per_layer(instance)
            self.assertEqual(len({before for _, before in replays}), layers, name)
            for node, _ in replays:
                self.assertTrue(instance["kinds"][instance["nodes"][node][0]]["recomputable"])


class WorkingSet(unittest.TestCase):
    def test_a_gradient_of_a_chain(self):
        self.assertEqual(TABLE.working_set(chain(2, 4)), 3 * MIB)

    def test_it_is_below_the_bound_of_the_suite(self):
        for path in sorted((SCRIPTS.parent / "instances").glob("byte-[24]*.json")):
            instance = TABLE.json.loads(path.read_text(encoding="utf-8"))
            bound = instance["bounds"]["working_set_bytes"]
            self.assertLessEqual(TABLE.working_set(instance), bound)
            self.assertGreater(TABLE.working_set(instance), 0.5 * bound)


class Floor(unittest.TestCase):
    def floor(self, cheap, whole, nodes=100):
        """The floor of a search that finds schedules from `whole` MiB on, with little work from `cheap` on."""
        graph = TABLE.Recompute.__new__(TABLE.Recompute)
        graph.keep, graph.instance, self.whole_searches = {"live_bytes": 1000 * MIB}, {"nodes": [0] * nodes}, 0

        def answer(_, budget, work=None):
            self.whole_searches += work is None
            return {"live_bytes": budget} if budget >= (whole if work is None else cheap) * MIB else None

        with mock.patch.object(TABLE.Recompute, "answer", answer):
            return graph.floor(10 * MIB) / MIB

    def test_it_is_within_a_mib(self):
        for cheap, whole in ((300, 300), (300, 299.5), (300, 200), (999, 11), (1000, 1000)):
            floor = self.floor(cheap, whole)
            self.assertTrue(whole <= floor <= whole + 1, f"{cheap}, {whole}: {floor}")

    def test_the_whole_search_looks_once_where_it_finds_nothing_below(self):
        self.floor(300, 300)
        self.assertLessEqual(self.whole_searches, 2)

    def test_it_is_that_of_little_work_in_large_graphs(self):
        floor = self.floor(300, 200, nodes=1000)
        self.assertTrue(300 <= floor <= 301, floor)
        self.assertEqual(self.whole_searches, 0)


class Rows(unittest.TestCase):
    HEAD = ("instance", "floor", TABLE.LP)

    def text(self, rows):
        lines = [TABLE.line(self.HEAD), "|---|---|---|", *rows]
        return "before\n<!-- table -->\n" + "\n".join(lines) + "\n<!-- end -->\nbehind\n"

    def test_other_rows_and_bounds_stay(self):
        rows = ["| [a-1](a-1.json) | 2 | 1 % /  |", "| [b](b.json) | 3 |  |"]
        table = TABLE.Table(self.text(rows), "table", self.HEAD, ["a-1", "b", "c"])
        self.assertEqual((table.bound("a-1"), table.bound("b"), table.bound("c")), ("1 % /", "", ""))
        table.rows["b"] = ["[b](b.json)", 4, "5 %"]
        table.rows["c"] = ["[c](c.json)", 6, ""]
        changed = table.text()
        self.assertIn("| [a-1](a-1.json) | 2 | 1 % / |\n| [b](b.json) | 4 | 5 % |\n| [c](c.json) | 6 |  |\n<!-- end -->", changed)
        self.assertTrue(changed.startswith("before\n<!-- table -->\n| instance |") and changed.endswith("behind\n"))

    def test_the_tables_of_the_suite_are_whole(self):
        for names in (TABLE.MAKE.INSTANCES, PUBLISHED.NETWORKS):
            table = TABLE.table_of(next(iter(names)))
            self.assertEqual(list(table.rows), list(names))
            for name, row in table.rows.items():
                self.assertEqual(len(row), len(table.head), name)


if __name__ == "__main__":
    unittest.main()
