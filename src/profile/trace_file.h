// A file of Chrome's trace format, written event by event.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "formats/atomic_file.h"

namespace plimsoll {

class TraceFile {
 public:
  // The file appears when it is whole. E-IO-WRITE.
  explicit TraceFile(const std::filesystem::path& path);

  void name_process(int process, std::string_view name);
  void name_track(int process, int track, std::string_view name);
  // `args`: an object of JSON, or empty. Times in seconds from the begin of the update. A slice that would begin before the last
  // one of its track ended begins at that end. A counter's samples do not go back either.
  void slice(int process, int track, std::string_view name, double begin, double end, std::string_view args = {});
  void counter(int process, std::string_view name, double at, const std::vector<std::pair<std::string, Bytes>>& values);
  void finish();

 private:
  void event(std::string_view text);
  template <class Key>
  using Times = std::vector<std::pair<Key, double>>;
  template <class Key>
  static double& time_of(Times<Key>& times, const Key& key);

  AtomicFile file_;
  std::string pending_;
  bool first_ = true;
  Times<std::pair<int, int>> ends_;             // of the last slice, by track
  Times<std::pair<int, std::string>> samples_;  // the last ones, by counter
};

}  // namespace plimsoll
