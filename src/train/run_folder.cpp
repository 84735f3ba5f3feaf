#include "train/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "formats/atomic_file.h"

namespace plimsoll {
namespace {

Error cannot_write(const std::filesystem::path& path, const std::string& why) {
  return data_error("E-IO-WRITE", path.string(), "it cannot be written: " + why, "a folder that exists or can be created",
                    {"--run ANOTHER_FOLDER"});
}

}  // namespace

RunFolder RunFolder::open(const std::filesystem::path& path, bool resume) {
  const bool exists = std::filesystem::exists(path / "run.json");
  if (exists && !resume) {
    throw config_error("E-RUN-EXISTS", path.string(), "it already holds a run", "a new folder, or --resume to continue this one",
                       {fmt::format("plimsoll train CONFIG --run {} --resume", path.string())});
  }
  if (!exists && resume) {
    throw config_error("E-RUN-MISSING", path.string(), "there is no run to resume", "the folder of a run",
                       {fmt::format("plimsoll train CONFIG --run {}", path.string())});
  }
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw cannot_write(path, error.message());
  if (access(path.c_str(), W_OK) != 0) throw cannot_write(path, std::strerror(errno));
  return RunFolder(path);
}

RunFolder::~RunFolder() {
  if (metrics_ >= 0) close(metrics_);
}

RunFolder::RunFolder(RunFolder&& other) noexcept : path_(std::move(other.path_)), metrics_(std::exchange(other.metrics_, -1)) {}

void RunFolder::write(const std::string& name, const std::string& text) const { write_file_atomically(path_ / name, text); }

void RunFolder::write_run(const nlohmann::json& run) const { write("run.json", run.dump(1) + "\n"); }

void RunFolder::open_metrics(std::int64_t updates) {
  const std::filesystem::path path = path_ / "metrics.jsonl";
  metrics_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (metrics_ < 0) throw cannot_write(path, std::strerror(errno));
  std::ifstream lines(path, std::ios::binary);
  std::int64_t keep = 0;
  std::string line;
  for (std::int64_t i = 0; i < updates && std::getline(lines, line) && !lines.eof(); ++i) {
    keep += static_cast<std::int64_t>(line.size()) + 1;
  }
  if (ftruncate(metrics_, keep) != 0 || lseek(metrics_, keep, SEEK_SET) != keep) throw cannot_write(path, std::strerror(errno));
}

void RunFolder::append(const Metrics& metrics) {
  const auto number = [](double value) { return std::isfinite(value) ? value : 0.0; };
  char line[512];
  const auto end = fmt::format_to_n(
      line, sizeof line,
      "{{\"update\":{},\"samples\":{},\"units\":{},\"loss\":{},\"loss_bits\":\"{:016x}\",\"grad_norm\":{},\"grad_norm_bits\":\"{:016x}\","
      "\"learning_rate\":{},\"seconds\":{},\"tokens_per_second\":{},\"vm_hwm_bytes\":{}}}\n",
      metrics.update, metrics.samples, metrics.units, number(metrics.loss), std::bit_cast<std::uint64_t>(metrics.loss),
      number(metrics.grad_norm), std::bit_cast<std::uint64_t>(metrics.grad_norm), metrics.learning_rate, metrics.seconds,
      metrics.seconds > 0 ? static_cast<double>(metrics.units) / metrics.seconds : 0.0, metrics.vm_hwm.n);
  const auto size = static_cast<ssize_t>(end.size);
  if (::write(metrics_, line, static_cast<std::size_t>(size)) != size) {
    throw cannot_write(path_ / "metrics.jsonl", errno == 0 ? "the disk is full" : std::strerror(errno));
  }
}

}  // namespace plimsoll
