#include "cli/plan/instance_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/ceil_div.h"
#include "base/error.h"
#include "formats/bounded_json.h"

namespace plimsoll::replays {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;  // maximum bytes of one value, so that no sum over all rows overflows
constexpr std::size_t kMostRows = 1 << 20, kMostPairs = 64;
constexpr JsonLimits kLimits{.bytes = kMostInstanceBytes, .values = 20'000'000};
constexpr int kNone = -1;

class Reader {
 public:
  Reader(const json& file, const std::string& where) : file_(file), where_(where) {}

  Instance run() {
    if (file_.value("schema", "") != "plimsoll.instance/1") fail("its schema is not plimsoll.instance/1");
    alignment_ = whole(file_.at("alignment"), 1, 1 << 20, "alignment");
    result_.micro_steps = whole(file_.at("batch").at("accumulation"), 1, 1 << 30, "batch.accumulation");
    read_values();
    const json& nodes = rows("nodes");
    std::vector<std::size_t> later;  // nodes that run once per window, after several micro-steps
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (result_.micro_steps > 1 && kind_of(nodes[i], i).value("section", "") != "micro") {
        later.push_back(i);
      } else {
        add(static_cast<int>(i), nodes[i], false);
      }
    }
    if (result_.problem.ops.empty()) fail("no node runs in a micro-step");
    // The update reads results of the last micro-step, so no op runs again after it.
    const int last = static_cast<int>(result_.problem.ops.size()) - 1;
    if (!later.empty()) {
      for (Op& op : result_.problem.ops) op.until = std::min(op.until, last);
    }
    for (const std::size_t i : later) add(static_cast<int>(i), nodes[i], true);
    name_forward_ops(nodes);
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      if (!transient_[i] && root_[i] == static_cast<int>(i)) result_.always += bytes_[i];
    }
    return std::move(result_);
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw data_error("E-INSTANCE", where_, why,
                     "a file that `plimsoll plan CONFIG --export-instance FILE` writes, or one like it");
  }

  std::int64_t whole(const json& value, std::int64_t least, std::int64_t most, const std::string& what) const {
    if (!value.is_number_integer()) fail(what + " is no whole number");
    const auto number = value.get<std::int64_t>();
    if (number < least || number > most) fail(fmt::format("{} is {}, not {} to {}", what, number, least, most));
    return number;
  }

  const json& rows(const char* key) const {
    const json& list = file_.at(key);
    if (!list.is_array() || list.size() > kMostRows) fail(fmt::format("{} is no list of at most {}", key, kMostRows));
    return list;
  }

  std::int64_t aligned(std::int64_t bytes) const { return round_up(bytes, alignment_); }

  void read_values() {
    const json& values = rows("values");
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::string what = fmt::format("values[{}]", i);
      const std::int64_t bytes = aligned(whole(values[i].at(0), 0, kMostBytes, what + " bytes"));
      transient_.push_back(whole(values[i].at(2), 0, 2, what + " lasts") == 0);
      bytes_.push_back(bytes);
      root_.push_back(static_cast<int>(i));
    }
    base_ = newest_ = root_;
    touched_.resize(values.size());
    item_.assign(values.size(), kNone);
    made_.assign(values.size(), 0);
    last_reader_.assign(values.size(), kNone);
  }

  int id(const json& value, const std::string& what) const {
    return static_cast<int>(whole(value, 0, static_cast<std::int64_t>(bytes_.size()) - 1, what));
  }

  std::vector<int> ids(const json& list, const std::string& what) const {
    std::vector<int> result;
    for (const json& value : list) result.push_back(id(value, what));
    return result;
  }

  double seconds_of(const json& kind, const std::string& what) const {
    const double seconds = kind.value("seconds", 0.0);
    if (!(seconds >= 0 && seconds < 1e12)) fail(what + " takes no time that a clock shows");
    return seconds;
  }

  const json& kind_of(const json& row, std::size_t number) const {
    const json& kinds = file_.at("kinds");
    const std::string what = fmt::format("nodes[{}] kind", number);
    return kinds.at(at(whole(row.at(0), 0, static_cast<std::int64_t>(kinds.size()) - 1, what)));
  }

  // `once`: the node is not part of a micro-step: its seconds count separately, and it never runs again.
  void add(int number, const json& row, bool once) {
    const std::string what = fmt::format("nodes[{}]", number);
    const json& kind = kind_of(row, at(number));
    const std::vector<int> inputs = ids(row.at(2), what + " input"), outputs = ids(row.at(3), what + " output");
    check_order(inputs, outputs, what);
    if (kind.value("view", false)) {
      if (inputs.size() != 1 || outputs.size() != 1) fail(what + " is a view, and has not one input and one output");
      root_[at(outputs[0])] = root_[at(inputs[0])];
      base_[at(outputs[0])] = base_[at(inputs[0])];
      return;
    }
    const std::vector<Pair> pairs = pairs_of(kind, inputs, outputs, what);
    Op op;
    std::vector<int> changed;  // roots of the changed values
    for (const Pair& pair : pairs) {
      if (!pair.updates) continue;
      root_[at(outputs[pair.output])] = root_[at(inputs[pair.input])];
      newest_[at(root_[at(outputs[pair.output])])] = outputs[pair.output];
      changed.push_back(root_[at(outputs[pair.output])]);
    }
    const double seconds = seconds_of(kind, what);
    (once ? result_.rest_seconds : op.seconds) += seconds;
    op.scratch = aligned(whole(kind.value("scratch_bytes", json(0)), 0, kMostBytes, what + " scratch"));
    op.replayable = !once && changed.empty() && kind.value("recomputable", false) && !kind.value("backward", false);
    for (const int input : inputs) read(op, root_[at(input)]);
    for (const int output : outputs) {
      if (root_[at(output)] != output) continue;
      if (!transient_[at(output)]) {
        changed.push_back(output);
        continue;
      }
      item_[at(output)] = static_cast<int>(result_.problem.items.size());
      result_.problem.items.push_back(bytes_[at(output)]);
      op.writes.push_back(item_[at(output)]);
    }
    for (const Pair& pair : pairs) {
      if (may_overwrite(pair, pairs, inputs, outputs)) {
        op.overwrites.push_back({item_[at(root_[at(inputs[pair.input])])], item_[at(outputs[pair.output])]});
      }
    }
    limit(op, inputs, outputs, changed);
    const bool computes = kind.contains("backward") && kind.value("section", "") == "micro";  // false for nodes that feed
    if (computes && !once) op.pass = kind.value("backward", false) ? Pass::backward : Pass::forward;
    result_.problem.ops.push_back(std::move(op));
    result_.nodes.push_back(number);
  }

  // A backward node names its forward node, or shares its line.
  void name_forward_ops(const json& nodes) {
    std::vector<int> op_of(nodes.size(), kNone);
    std::map<std::string, int> last_of_line;  // the last forward op of each line
    for (int op = 0; op < static_cast<int>(result_.nodes.size()); ++op) {
      const int node = result_.nodes[at(op)];
      op_of[at(node)] = op;
      Op& what = result_.problem.ops[at(op)];
      const json& row = nodes[at(node)];
      const std::string line = row.at(1).is_string() ? row.at(1).get<std::string>() : std::string();
      if (what.pass == Pass::forward && !line.empty()) last_of_line[line] = op;
      if (what.pass != Pass::backward) continue;
      if (row.size() > 4 && !row.at(4).is_null()) {
        const auto named = whole(row.at(4), 0, node - 1, fmt::format("nodes[{}] of", node));
        what.of = op_of[at(named)];
        if (what.of == kNone || result_.problem.ops[at(what.of)].pass != Pass::forward) what.of = kNone;
      } else if (const auto found = last_of_line.find(line); found != last_of_line.end()) {
        what.of = found->second;
      }
    }
  }

  // Positions of an input and an output that may share their bytes.
  struct Pair {
    std::size_t input, output;
    bool updates;
  };

  std::vector<Pair> pairs_of(const json& kind, const std::vector<int>& inputs, const std::vector<int>& outputs,
                             const std::string& what) const {
    std::vector<Pair> pairs;
    const json rows = kind.value("in_place", json::array());
    if (rows.size() > kMostPairs)
      fail(fmt::format("{} in_place has {} rows, and {} are the most", what, rows.size(), kMostPairs));
    for (const json& row : rows) {
      const auto position = [&](std::size_t column, const std::vector<int>& of) {
        return at(whole(row.at(column), 0, static_cast<std::int64_t>(of.size()) - 1, what + " in_place"));
      };
      pairs.push_back({position(0, inputs), position(1, outputs), row.at(2) == "updates"});
    }
    return pairs;
  }

  // True if the output may overwrite the input: both are all of their bytes, and each other input in the same bytes has the same
  // pair.
  bool may_overwrite(const Pair& pair, const std::vector<Pair>& pairs, const std::vector<int>& inputs,
                     const std::vector<int>& outputs) const {
    const int input = inputs[pair.input], output = outputs[pair.output], root = root_[at(input)];
    if (pair.updates || item_[at(root)] == kNone || root_[at(output)] != output || item_[at(output)] == kNone) return false;
    if (bytes_[at(input)] != bytes_[at(root)] || bytes_[at(input)] != bytes_[at(output)]) return false;
    for (std::size_t other = 0; other < inputs.size(); ++other) {
      if (root_[at(inputs[other])] != root) continue;
      const bool paired = std::any_of(pairs.begin(), pairs.end(), [&](const Pair& each) {
        return each.input == other && each.output == pair.output && !each.updates;
      });
      if (!paired || bytes_[at(inputs[other])] != bytes_[at(root)]) return false;
    }
    return true;
  }

  // An op that read or made a value cannot run again after this op changes the value.
  void limit(const Op& op, const std::vector<int>& inputs, const std::vector<int>& outputs, const std::vector<int>& changed) {
    const int index = static_cast<int>(result_.problem.ops.size());
    for (const int root : changed) {
      for (const int before : touched_[at(root)]) {
        int& until = result_.problem.ops[at(before)].until;
        until = std::min(until, index);
      }
      touched_[at(root)].clear();
    }
    if (!op.replayable) return;
    for (const auto* values : {&inputs, &outputs}) {
      for (const int value : *values) touched_[at(root_[at(value)])].push_back(index);
    }
  }

  // Adds the item of a root to the reads, once.
  void read(Op& op, int root) {
    const int item = item_[at(root)], index = static_cast<int>(result_.problem.ops.size());
    if (item == kNone || std::exchange(last_reader_[at(root)], index) == index) return;
    op.reads.push_back(item);
  }

  void check_order(const std::vector<int>& inputs, const std::vector<int>& outputs, const std::string& what) {
    for (const int input : inputs) {
      if (transient_[at(input)] && !made_[at(input)]) fail(fmt::format("{} reads value {} before it is made", what, input));
      if (base_[at(input)] != newest_[at(root_[at(input)])]) {
        fail(fmt::format("{} reads value {}, which an earlier node has updated in place", what, input));
      }
    }
    for (const int output : outputs) {
      if (made_[at(output)]) fail(fmt::format("{} makes value {} a second time", what, output));
      made_[at(output)] = 1;
    }
  }

  static std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

  const json& file_;
  const std::string& where_;
  std::int64_t alignment_ = 1;
  std::vector<std::int64_t> bytes_;        // by value, aligned
  std::vector<char> transient_, made_;     // by value
  std::vector<int> root_, item_;           // by value: the value that owns its bytes; the item, or kNone
  std::vector<int> last_reader_;           // by root: the last op that read it
  std::vector<int> base_;                  // by value: the value that it is a view of, else itself
  std::vector<int> newest_;                // by root: the latest value in its bytes
  std::vector<std::vector<int>> touched_;  // by root: replayable ops that read or made the present value
  Instance result_;
};

}  // namespace

Instance read_instance(std::string_view text, const std::string& where) {
  try {
    return Reader(parse_json(text, kLimits), where).run();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw data_error("E-INSTANCE", where, fmt::format("it is not an instance: {}", error.what()),
                     "a file that `plimsoll plan CONFIG --export-instance FILE` writes, or one like it");
  }
}

}  // namespace plimsoll::replays
