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

// 0 for a new key.
template <class Key>
double& TraceFile::time_of(Times<Key>& times, const Key& key) {
  auto found = std::ranges::find(times, key, [](const auto& each) { return each.first; });
  if (found == times.end()) found = times.insert(found, {key, 0});
  return found->second;
}

void TraceFile::slice(int process, int track, std::string_view name, double begin, double end, std::string_view args) {
  double& last = time_of(ends_, {process, track});
  begin = std::max(begin, last);
  last = end = std::max(begin, end);
  event(fmt::format(R"({{"ph":"X","pid":{},"tid":{},"name":{},"ts":{:.4f},"dur":{:.4f},"args":{}}})", process, track,
                    json_string(name), microseconds(begin), microseconds(end) - microseconds(begin), args.empty() ? "{}" : args));
}

void TraceFile::counter(int process, std::string_view name, double at, const std::vector<std::pair<std::string, Bytes>>& values) {
  double& last = time_of(samples_, {process, std::string(name)});
  last = at = std::max(at, last);
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
