#include "profile/trace_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace plimsoll {
namespace {

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

double microseconds(double seconds) { return 1e6 * seconds; }

}  // namespace

TraceFile::TraceFile(const std::filesystem::path& path) : file_(output_file(path)) {
  pending_ = R"({"displayTimeUnit":"ms","traceEvents":[)";
}

void TraceFile::event(std::string_view text) {
  constexpr std::size_t kBuffer = 1 << 18;
  pending_ += std::exchange(first_, false) ? "\n" : ",\n";
  pending_ += text;
  if (pending_.size() < kBuffer) return;
  file_.write(pending_);
  pending_.clear();
}

void TraceFile::name_process(int process, std::string_view name) {
  event(fmt::format(R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":{}}}}})", process, json_string(name)));
}

void TraceFile::name_track(int process, int track, std::string_view name) {
  event(fmt::format(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}}}})", process, track,
                    json_string(name)));
}

void TraceFile::slice(int process, int track, std::string_view name, double begin, double end, std::string_view args) {
  const std::pair where{process, track};
  auto last = std::ranges::find(ends_, where, [](const auto& each) { return each.first; });
  if (last == ends_.end()) last = ends_.insert(last, {where, 0});
  begin = std::max(begin, last->second);
  end = std::max(begin, end);
  last->second = end;
  event(fmt::format(R"({{"ph":"X","pid":{},"tid":{},"name":{},"ts":{:.4f},"dur":{:.4f},"args":{}}})", process, track,
                    json_string(name), microseconds(begin), microseconds(end) - microseconds(begin), args.empty() ? "{}" : args));
}

void TraceFile::counter(int process, std::string_view name, double at, const std::vector<std::pair<std::string, Bytes>>& values) {
  std::string args;
  for (const auto& [owner, bytes] : values) args += fmt::format("{}{}:{}", args.empty() ? "" : ",", json_string(owner), bytes.n);
  event(fmt::format(R"({{"ph":"C","pid":{},"name":{},"ts":{:.4f},"args":{{{}}}}})", process, json_string(name), microseconds(at),
                    args));
}

void TraceFile::finish() {
  pending_ += "\n]}\n";
  file_.write(pending_);
  file_.commit();
}

}  // namespace plimsoll
