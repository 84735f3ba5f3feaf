#include "records/exports/csv.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "formats/atomic_file.h"
#include "formats/new_folder.h"
#include "records/run_parts.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

// A table that is written row by row.
class Table {
 public:
  Table(const fs::path& path, std::string_view header) : file_(path) { text_ = std::string(header) + "\n"; }

  template <class... Cells>
  void row(const Cells&... cells) {
    std::string line;
    ((line += cell(cells), line += ','), ...);
    line.back() = '\n';
    text_ += line;
    if (text_.size() < kBlock) return;
    file_.write(text_);
    text_.clear();
  }
  void commit() {
    file_.write(text_);
    file_.commit();
  }

 private:
  static constexpr std::size_t kBlock = 256 << 10;

  static std::string cell(std::int64_t number) { return fmt::format("{}", number); }
  static std::string cell(double number) { return fmt::format("{}", number); }
  static std::string cell(const std::optional<double>& number) { return number ? cell(*number) : std::string(); }
  static std::string cell(const std::string& text) {
    std::string quoted = "\"";
    for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
    return quoted + "\"";
  }

  AtomicFile file_;
  std::string text_;
};

void write_part(const RunPart& part, const fs::path& folder) {
  create_folder(folder);
  Table metrics(folder / "metrics.csv",
                "update,samples,units,tokens,padding,micro_steps,loss,grad_norm,learning_rate,momentum,loss_scale,update_ratio,"
                "underflow,spike,wait_seconds,time,seconds,tokens_per_second,vm_hwm_bytes");
  part.metrics([&](const Metrics& m) {
    const double speed = m.seconds > 0 ? static_cast<double>(m.units) / m.seconds : 0;
    metrics.row(m.update, m.samples, m.units, m.positions, m.padding, m.micro_steps, m.loss, m.grad_norm, m.learning_rate,
                m.momentum, m.loss_scale, m.update_ratio, m.underflow, std::int64_t{m.spike}, m.wait_seconds, m.time, m.seconds,
                speed, m.vm_hwm.n);
  });
  metrics.commit();
  Table evaluations(folder / "evaluations.csv", "update,samples,loss,units,seconds,accuracy,accuracy_top5,time");
  part.evaluations([&](const Evaluation& e) {
    const auto top1 = e.accuracy ? std::optional(e.accuracy->top1) : std::nullopt;
    const auto top5 = e.accuracy ? std::optional(e.accuracy->top5) : std::nullopt;
    evaluations.row(e.update, e.samples, e.loss, e.units, e.seconds, top1, top5, e.time);
  });
  evaluations.commit();
  Table events(folder / "events.csv", "update,event,details");
  part.events([&](const nlohmann::json& event) {
    nlohmann::json details = event;
    details.erase("update");
    details.erase("event");
    events.row(event["update"].get<std::int64_t>(), event["event"].get<std::string>(),
               details.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  });
  events.commit();
}

}  // namespace

void export_csv(const fs::path& run, const fs::path& folder) {
  for (const RunPart& part : parts_of_run(run)) {
    write_part(part, part.number == 1 ? folder : folder / std::to_string(part.number));
  }
}

}  // namespace plimsoll
