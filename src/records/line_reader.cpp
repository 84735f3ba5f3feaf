#include "records/line_reader.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "formats/file.h"
#include "formats/json_events.h"
#include "records/update_lines.h"

namespace plimsoll {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// The numbers and flags of an object, and of its inner objects as "outer.inner", without those of lists and deeper objects.
// Reused from line to line: no tree is built.
class FlatObject final : public JsonEvents {
 public:
  // False for a line that is no JSON object.
  bool read(std::string_view line) {
    fields_.clear();
    depth_ = 0;
    object_ = false;
    std::string fault;
    return send_json_events(line, kLineLimits, *this, fault) && object_;
  }

  bool has(std::string_view key) const { return find(key) != nullptr; }
  // Nothing for an absent key, and for null.
  std::optional<double> number(std::string_view key) const {
    const Field* field = find(key);
    return field != nullptr && !std::isnan(field->number) ? std::optional(field->number) : std::nullopt;
  }
  // Nothing for a number with a fraction, or beyond 64 bits.
  std::optional<std::int64_t> whole(std::string_view key) const {
    const Field* field = find(key);
    return field != nullptr ? field->whole : std::nullopt;
  }

  bool null() override { return put(kUnknown, {}); }
  bool boolean(bool value) override { return put(value ? 1 : 0, value ? 1 : 0); }
  bool number_integer(std::int64_t value) override { return put(static_cast<double>(value), value); }
  bool number_unsigned(std::uint64_t value) override {
    const bool fits = value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    return put(static_cast<double>(value), fits ? std::optional(static_cast<std::int64_t>(value)) : std::nullopt);
  }
  bool number_float(double value, const std::string&) override { return put(value, {}); }
  bool string(std::string&) override { return true; }
  bool key(std::string& text) override {
    if (depth_ == 1) {
      key_.swap(text);
    } else if (depth_ == 2) {
      inner_.swap(text);
    }
    return true;
  }
  bool start_object() override {
    if (depth_++ == 0) object_ = true;
    if (depth_ == 2) inside_ = true;
    return true;
  }
  bool end_object() override {
    if (--depth_ == 1) inside_ = false;
    return true;
  }
  bool start_array() override {
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }

 private:
  struct Field {
    std::string key;
    double number;
    std::optional<std::int64_t> whole;
  };

  bool put(double number, std::optional<std::int64_t> whole) {
    if (depth_ == 1 && object_) fields_.push_back({key_, number, whole});
    if (depth_ == 2 && object_ && inside_) fields_.push_back({key_ + "." + inner_, number, whole});
    return true;
  }
  // The last value of a repeated key counts.
  const Field* find(std::string_view key) const {
    const auto found = std::find_if(fields_.rbegin(), fields_.rend(), [&](const Field& field) { return field.key == key; });
    return found == fields_.rend() ? nullptr : &*found;
  }

  std::vector<Field> fields_;
  std::string key_, inner_;  // of the object and of an inner object
  int depth_ = 0;
  bool object_ = false, inside_ = false;
};

std::optional<std::int64_t> update_of(const FlatObject& object) {
  const std::optional<std::int64_t> update = object.whole("update");
  return update && *update >= 0 ? update : std::nullopt;
}

std::optional<Metrics> metrics_of(const FlatObject& object) {
  const std::optional<std::int64_t> update = update_of(object);
  if (!update || !object.has("loss") || !object.has("grad_norm")) return {};
  Metrics metrics;
  metrics.update = *update;
  metrics.samples = object.whole("samples").value_or(0);
  metrics.units = object.whole("units").value_or(0);
  metrics.positions = object.whole("tokens").value_or(metrics.units);
  metrics.micro_steps = object.whole("micro_steps").value_or(0);
  metrics.padding = object.whole("padding").value_or(0);
  metrics.loss = object.number("loss").value_or(kUnknown);
  metrics.grad_norm = object.number("grad_norm").value_or(kUnknown);
  metrics.learning_rate = object.number("learning_rate").value_or(0);
  metrics.seconds = object.number("seconds").value_or(0);
  metrics.momentum = object.number("momentum");
  metrics.loss_scale = object.number("loss_scale");
  metrics.update_ratio = object.number("update_ratio").value_or(kUnknown);
  metrics.underflow = object.number("underflow");
  metrics.spike = object.number("spike").value_or(0) != 0;
  const auto noise = [&](const char* key) { return object.number(std::string("noise.") + key); };
  const auto first = noise("first"), window = noise("window"), few = noise("samples_first"), all = noise("samples_window");
  if (first && window && few && all) metrics.noise = {*first, *window, *few, *all};
  metrics.wait_seconds = object.number("wait_seconds");
  metrics.time = object.number("time").value_or(0);
  metrics.vm_hwm = Bytes{object.whole("vm_hwm_bytes").value_or(0)};
  return metrics;
}

std::optional<Evaluation> evaluation_of(const FlatObject& object) {
  const std::optional<std::int64_t> update = update_of(object);
  if (!update || !object.has("loss")) return {};
  Evaluation evaluation;
  evaluation.update = *update;
  evaluation.samples = object.whole("samples").value_or(0);
  evaluation.loss = object.number("loss").value_or(kUnknown);
  evaluation.units = object.whole("units").value_or(0);
  evaluation.seconds = object.number("seconds").value_or(0);
  evaluation.time = object.number("time").value_or(0);
  if (const auto top1 = object.number("accuracy"), top5 = object.number("accuracy_top5"); top1 && top5) {
    evaluation.accuracy = {*top1, *top5};
  }
  return evaluation;
}

std::optional<File> opened(const std::filesystem::path& path) {
  try {
    return is_there(path) ? std::optional(File::open(path, "E-IO-READ")) : std::nullopt;
  } catch (const Error&) {
    return {};
  }
}

// The same as for_each_whole_line for a file that may be cut meanwhile: it ends there. Errors of `visit` pass.
void visit_whole_lines(const File& file, std::int64_t from,
                       const std::function<void(std::string_view, std::int64_t, std::int64_t)>& visit) {
  bool reads = true;
  try {
    for_each_whole_line(file, from, [&](std::string_view line, std::int64_t begin, std::int64_t end) {
      reads = false;
      visit(line, begin, end);
      reads = true;
    });
  } catch (const Error&) {
    if (!reads) throw;
  }
}

// `visit` returns false for a broken line.
LeftOut visit_lines(const std::filesystem::path& path, const std::function<bool(std::string_view, LeftOut&)>& visit) {
  LeftOut left_out;
  const std::optional<File> file = opened(path);
  if (!file) return left_out;
  std::int64_t whole = 0;
  visit_whole_lines(*file, 0, [&](std::string_view line, std::int64_t, std::int64_t end) {
    whole = end;
    if (!visit(line, left_out)) ++left_out.broken;
  });
  left_out.torn = whole < file->size();
  return left_out;
}

template <class Value, class Parse, class See>
LeftOut read_ascending(const std::filesystem::path& path, Parse parse, const See& see) {
  FlatObject object;
  std::int64_t last = -1;
  return visit_lines(path, [&](std::string_view line, LeftOut& left_out) {
    const std::optional<Value> value = object.read(line) ? parse(object) : std::nullopt;
    if (!value) return false;
    if (value->update > last) {
      last = value->update;
      see(*value);
    } else {
      ++left_out.out_of_order;
    }
    return true;
  });
}

}  // namespace

std::optional<Metrics> metrics_of_line(std::string_view line) {
  FlatObject object;
  return object.read(line) ? metrics_of(object) : std::nullopt;
}

std::optional<Evaluation> evaluation_of_line(std::string_view line) {
  FlatObject object;
  return object.read(line) ? evaluation_of(object) : std::nullopt;
}

LeftOut read_metrics(const std::filesystem::path& folder, const std::function<void(const Metrics&)>& see) {
  return read_ascending<Metrics>(folder / kMetricsFile, metrics_of, see);
}

LeftOut read_evaluations(const std::filesystem::path& folder, const std::function<void(const Evaluation&)>& see) {
  return read_ascending<Evaluation>(folder / kEvaluationsFile, evaluation_of, see);
}

namespace {

// Several lines may have one update. `see(update, object)` returns false for an object that lacks something.
LeftOut read_objects(const std::filesystem::path& path, const std::function<bool(std::int64_t, const nlohmann::json&)>& see) {
  std::int64_t last = -1;
  return visit_lines(path, [&](std::string_view line, LeftOut& left_out) {
    std::string fault;
    const nlohmann::json object = parse_json(line, kLineLimits, fault);
    if (!object.is_object() || !object.contains("update") || !object["update"].is_number_integer()) return false;
    const std::int64_t update = object["update"].get<std::int64_t>();
    if (update < last) {
      ++left_out.out_of_order;
      return true;
    }
    if (!see(update, object)) return false;
    last = update;
    return true;
  });
}

bool has_text(const nlohmann::json& object, const char* key) { return object.contains(key) && object[key].is_string(); }

}  // namespace

LeftOut read_events(const std::filesystem::path& folder, const std::function<void(const nlohmann::json&)>& see) {
  return read_objects(folder / kEventsFile, [&](std::int64_t, const nlohmann::json& event) {
    if (!has_text(event, "event")) return false;
    see(event);
    return true;
  });
}

LeftOut read_answers(const std::filesystem::path& folder, const std::function<void(const Answer&)>& see) {
  return read_objects(folder / kAnswersFile, [&](std::int64_t update, const nlohmann::json& object) {
    for (const char* key : {"prompt", "answer", "expected"}) {
      if (!has_text(object, key)) return false;
    }
    if (update < 0) return false;
    see({update, object["prompt"], object["answer"], object["expected"]});
    return true;
  });
}

std::optional<Metrics> last_metrics(const std::filesystem::path& folder) {
  constexpr std::int64_t kTail = 16 << 10, kMostTail = 256 << 10;
  const std::optional<File> file = opened(folder / kMetricsFile);
  std::optional<Metrics> last;
  for (std::int64_t tail = kTail; file && !last && tail <= kMostTail; tail *= 4) {
    const std::int64_t from = std::max<std::int64_t>(0, file->size() - tail);
    // The first line may begin before: its rest is no object.
    visit_whole_lines(*file, from, [&](std::string_view line, std::int64_t, std::int64_t) {
      if (const std::optional<Metrics> metrics = metrics_of_line(line)) last = metrics;
    });
    if (from == 0) break;
  }
  return last;
}

bool LineFollower::is_same(const File& file) const {
  struct stat status {};
  if (::fstat(file.fd(), &status) != 0 || status.st_dev != device_ || status.st_ino != inode_ || file.size() < end_) return false;
  std::string now(last_.size(), '\0');
  try {
    file.read_at(end_ - std::ssize(last_), std::as_writable_bytes(std::span(now)));
  } catch (const Error&) {
    return false;
  }
  return now == last_;
}

void LineFollower::poll(const std::function<void(std::string_view)>& see, const std::function<void()>& again) {
  const std::optional<File> file = opened(path_);
  if (end_ > 0 && !(file && is_same(*file))) {
    end_ = 0;
    last_.clear();
    again();
  }
  struct stat status {};
  if (!file || ::fstat(file->fd(), &status) != 0) return;
  device_ = status.st_dev, inode_ = status.st_ino;
  visit_whole_lines(*file, end_, [&](std::string_view line, std::int64_t begin, std::int64_t end) {
    last_.assign(end - begin == std::ssize(line) + 1 ? line : "");
    if (!last_.empty()) last_ += '\n';
    end_ = end;
    see(line);
  });
}

}  // namespace plimsoll
