#include "plan/replays/instance.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/ceil_div.h"
#include "base/error.h"

namespace plimsoll::replays {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;  // of one value: no sum over all rows overflows
constexpr std::size_t kMostRows = 1 << 20;
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
    for (std::size_t i = 0; i < nodes.size(); ++i) add(static_cast<int>(i), nodes[i]);
    if (result_.problem.ops.empty()) fail("no node runs in a micro-step");
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
      if (!transient_.back()) result_.always += bytes;
    }
    item_.assign(values.size(), kNone);
    made_.assign(values.size(), 0);
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

  void add(int number, const json& row) {
    const std::string what = fmt::format("nodes[{}]", number);
    const json& kinds = file_.at("kinds");
    const json& kind =
        kinds.at(static_cast<std::size_t>(whole(row.at(0), 0, static_cast<std::int64_t>(kinds.size()) - 1, what + " kind")));
    const std::vector<int> inputs = ids(row.at(2), what + " input"), outputs = ids(row.at(3), what + " output");
    check_order(inputs, outputs, what);
    if (kind.value("view", false)) {
      if (inputs.size() != 1 || outputs.size() != 1) fail(what + " is a view, and has not one input and one output");
      root_[at(outputs[0])] = root_[at(inputs[0])];
      return;
    }
    const json in_place = kind.value("in_place", json::array());
    Op op;
    bool updates = false;
    for (const json& pair : in_place) {
      const int input = inputs.at(at(whole(pair.at(0), 0, static_cast<std::int64_t>(inputs.size()) - 1, what + " in_place")));
      const int output = outputs.at(at(whole(pair.at(1), 0, static_cast<std::int64_t>(outputs.size()) - 1, what + " in_place")));
      if (pair.at(2) == "updates") {
        root_[at(output)] = root_[at(input)];
        updates = true;
      } else if (item_[at(root_[at(input)])] != kNone) {
        op.overwrites.push_back(item_[at(root_[at(input)])]);
      }
    }
    op.seconds = seconds_of(kind, what);
    if (result_.micro_steps > 1 && kind.value("section", "") != "micro") {
      result_.rest_seconds += op.seconds;
      return;
    }
    op.scratch = aligned(whole(kind.value("scratch_bytes", json(0)), 0, kMostBytes, what + " scratch"));
    op.replayable = !updates && kind.value("recomputable", false) && !kind.value("backward", false);
    for (const int input : inputs) read(op, root_[at(input)]);
    for (const int output : outputs) {
      if (root_[at(output)] != output || !transient_[at(output)]) continue;
      item_[at(output)] = static_cast<int>(result_.problem.items.size());
      result_.problem.items.push_back(bytes_[at(output)]);
      op.writes.push_back(item_[at(output)]);
    }
    result_.problem.ops.push_back(std::move(op));
    result_.nodes.push_back(number);
  }

  void read(Op& op, int root) const {
    const int item = item_[at(root)];
    if (item != kNone && std::find(op.reads.begin(), op.reads.end(), item) == op.reads.end()) op.reads.push_back(item);
  }

  void check_order(const std::vector<int>& inputs, const std::vector<int>& outputs, const std::string& what) {
    for (const int input : inputs) {
      if (transient_[at(input)] && !made_[at(input)]) fail(fmt::format("{} reads value {} before it is made", what, input));
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
  std::vector<std::int64_t> bytes_;     // by value, aligned
  std::vector<char> transient_, made_;  // by value
  std::vector<int> root_, item_;        // by value: whose bytes it is; its item
  Instance result_;
};

}  // namespace

Instance read_instance(std::string_view text, const std::string& where) {
  try {
    return Reader(json::parse(text), where).run();
  } catch (const json::exception& error) {
    throw data_error("E-INSTANCE", where, fmt::format("it is not an instance: {}", error.what()),
                     "a file that `plimsoll plan CONFIG --export-instance FILE` writes, or one like it");
  }
}

}  // namespace plimsoll::replays
