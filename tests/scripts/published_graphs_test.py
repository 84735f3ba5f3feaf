"""The graphs of scripts/published_graphs can run, their gradients name their nodes, and their sizes are those of the papers."""

import collections
import copy
import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(os.environ.get("PLIMSOLL_SOURCE_DIR", Path(__file__).resolve().parents[2])) / "scripts"
GRADIENT, INPUT = 5, 3
# Multiplications in convolutions, linear layers and attention for one sample, in 10^9. He et al. 2015 count the first two,
# Sandler et al. 2018 (table 4) the third. The last one is by hand: 12 layers of 197 x 768 x 768 x 12 and 2 x 197 x 197 x 768,
# the patches, the head.
PUBLISHED_WORK = {"resnet-50": 3.8, "vgg-16": 15.3, "mobilenet-v2": 0.3, "vit-b": 17.56}


def load(name):
    loader = importlib.machinery.SourceFileLoader(name, str(SCRIPTS / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


GRAPHS, CHECK, BOUND = load("published_graphs"), load("check_instance"), load("lp_bound")


class Graph:
    """A written graph, and lists of what it has by op and name."""

    def __init__(self, data):
        self.data, self.values, self.kinds, self.nodes = data, data["values"], data["kinds"], data["nodes"]

    def op(self, node):
        return self.kinds[self.nodes[node][0]]["op"]

    def seconds(self, node):
        return self.kinds[self.nodes[node][0]]["seconds"]

    def forward(self):
        return [i for i, node in enumerate(self.nodes) if not self.kinds[node[0]].get("backward") and self.op(i) != "feed"]

    def named(self, op, end=""):
        return [i for i in self.forward() if self.op(i) == op and self.nodes[i][1].endswith(end)]

    def sizes(self, values):
        return [self.values[value][0] for value in values]


class PublishedGraphs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, SCRIPTS / "published_graphs", "--out", folder]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            cls.graphs = {path.stem: Graph(json.loads(path.read_text())) for path in sorted(Path(folder).iterdir())}

    def test_all_are_written(self):
        self.assertEqual(set(self.graphs), set(GRAPHS.NETWORKS))

    def test_values_are_made_once_and_before_they_are_read(self):
        for name, graph in self.graphs.items():
            with self.subTest(name):
                made = set()
                for number, (kind, _, inputs, outputs, *_) in enumerate(graph.nodes):
                    self.assertLessEqual(set(inputs), made, f"node {number} reads what is not made")
                    self.assertFalse(made & set(outputs), f"node {number} makes a value again")
                    self.assertTrue(outputs, f"node {number} makes nothing")
                    made.update(outputs)
                    for position, output, _ in graph.kinds[kind].get("in_place", ()):
                        self.assertEqual(*graph.sizes([inputs[position], outputs[output]]), f"node {number} in place")
                self.assertEqual(made, set(range(len(graph.values))))

    def test_each_gradient_names_its_node(self):
        for name, graph in self.graphs.items():
            with self.subTest(name):
                self.assertEqual(list(CHECK.wrong_owners(graph.kinds, graph.nodes)), [])
                owners = collections.Counter(node[4] for node in graph.nodes if len(node) > 4)
                self.assertEqual(owners, collections.Counter(graph.forward()))
                for number, node in enumerate(graph.nodes):
                    if len(node) == 4:
                        self.assertTrue(number in owners or graph.op(number) in ("feed", "loss", "head_loss"), graph.op(number))
                    else:
                        owner = graph.nodes[node[4]]
                        self.assertEqual((graph.op(number), node[1]), (graph.op(node[4]) + "_gradient", owner[1]))

    def test_gradients_have_the_sizes_of_their_values(self):
        for name, graph in self.graphs.items():
            if name.startswith("poet"):
                continue
            second = {graph.nodes[i][3][1] for i in graph.forward() if len(graph.nodes[i][3]) > 1}
            for number, (_, _, reads, makes, *of) in enumerate(graph.nodes):
                if not of:
                    continue
                _, _, inputs, outputs, *_ = graph.nodes[of[0]]
                wanted = [v for v in inputs if graph.values[v][1] != INPUT and v not in second]
                self.assertEqual(graph.values[reads[0]][1], GRADIENT, f"{name}, node {number}")
                self.assertEqual(graph.sizes(reads[:1]), graph.sizes(outputs[:1]), f"{name}, node {number}")
                self.assertEqual(graph.sizes(makes), graph.sizes(wanted) or [4], f"{name}, node {number}")

    def test_readers_accept_them(self):
        for name, graph in self.graphs.items():
            with self.subTest(name):
                self.assertGreater(CHECK.replayed(graph.data, [])[0], 0)
                self.assertEqual(BOUND.Problem(graph.data).count, len(graph.nodes))

    def test_wrong_owners_are_named(self):
        graph = self.graphs["vgg-16"]
        backward = len(graph.nodes) - 1
        for node, of, text in ((1, [0], "is no backward node"), (backward, [backward], "no node before it"),
                               (backward, [-1], "no node before it"), (backward, [1.5], "no node before it"),
                               (backward, [True], "no node before it"), (backward, [1, 1], "no node before it"),
                               (backward, [backward - 1], "is no forward node")):
            nodes = copy.deepcopy(graph.nodes)
            nodes[node][4:] = of
            found = list(CHECK.wrong_owners(graph.kinds, nodes))
            self.assertEqual(len(found), 1, found)
            self.assertIn(text, found[0])

    def test_work_is_that_of_the_papers(self):
        for name, published in PUBLISHED_WORK.items():
            net = GRAPHS.NETWORKS[name]()
            work = sum(layer.flops for layer in net.forward if layer.op in ("conv", "linear", "attention")) / 2e9 / net.batch
            self.assertLess(abs(work / published - 1), 0.02, f"{name}: {work}")

    def test_fused_attention_keeps_its_statistics(self):
        for name in ("vit-b", "encoder-decoder", "sliding-full", "dense-moe"):
            graph = self.graphs[name]
            gradient = {node[4]: node for node in graph.nodes if len(node) > 4}
            for number in graph.named("attention"):
                _, _, inputs, outputs, *_ = graph.nodes[number]
                self.assertEqual(len(outputs), 2)
                self.assertEqual(graph.values[outputs[0]][0], 64 * graph.values[outputs[1]][0])  # heads of 64
                self.assertLessEqual({*inputs, *outputs}, set(gradient[number][2]))

    def test_the_decoder_reads_the_encoder(self):
        graph = self.graphs["encoder-decoder"]
        encoded = graph.nodes[graph.named("norm", "encoder.norm")[0]][3][0]
        readers = [graph.nodes[i][1] for i in graph.forward() if encoded in graph.nodes[i][2]]
        self.assertEqual(readers, [f"decoder.{i}.cross.kv" for i in range(12)])

    def test_five_windows_then_full_attention(self):
        graph = self.graphs["sliding-full"]
        seconds = [graph.seconds(i) for i in graph.named("attention")]
        full = 4096 * 4097 // 2
        window = 512 * 513 // 2 + (4096 - 512) * 512
        self.assertEqual(seconds, ([min(seconds)] * 5 + [max(seconds)]) * 4)
        self.assertAlmostEqual(max(seconds) / min(seconds), full / window, places=3)

    def test_experts_by_turns(self):
        graph = self.graphs["dense-moe"]
        rows = [graph.values[graph.nodes[i][3][0]][0] // (4 * 4 * 1024) for i in graph.named("gelu")]
        self.assertEqual(rows, [2048, 4096] * 8)
        fixed = {graph.op(i) for i in graph.forward() if not graph.kinds[graph.nodes[i][0]]["recomputable"]}
        self.assertEqual(fixed, {"route", "linear"})
        routers = [i for i in graph.named("linear") if not graph.kinds[graph.nodes[i][0]]["recomputable"]]
        self.assertEqual(routers, graph.named("linear", ".router"))


if __name__ == "__main__":
    unittest.main()
