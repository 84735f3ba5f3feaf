#include "profile/update_times.h"

#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/file.h"

namespace plimsoll {
namespace {

enum class Part : std::uint8_t { section, reading, end };

struct SectionHead {
  Section section = Section::micro;
  bool window_start = false;
  double begin = 0;
  std::size_t instructions = 0;
};

}  // namespace

template <class Item>
void UpdateTimesFile::write(const Item& item) {
  file_.write(std::as_bytes(std::span(&item, 1)));
}

void UpdateTimesFile::add(const InstructionTimer& timer, Section section, bool window_start, double begin) {
  const std::span<const InstructionTimer::Span> spans = timer.last(section);
  write(Part::section);
  write(SectionHead{section, window_start, begin, spans.size()});
  file_.write(std::as_bytes(spans));
}

void UpdateTimesFile::add(const Prefetcher::Reading& reading) {
  write(Part::reading);
  write(reading);
}

void UpdateTimesFile::finish(std::int64_t update, double begin, double end) {
  write(Part::end);
  write(update);
  write(begin);
  write(end);
  file_.commit();
}

UpdateTimes read_update_times(const std::filesystem::path& path) {
  const File file = File::open(path);
  std::int64_t at = 0;
  const auto read_all = [&](auto items) {
    file.read_at(at, std::as_writable_bytes(items));
    at += static_cast<std::int64_t>(items.size_bytes());
  };
  const auto read = [&](auto& item) { read_all(std::span(&item, 1)); };
  UpdateTimes times;
  while (true) {
    Part part{};
    read(part);
    if (part == Part::end) break;
    if (part == Part::reading) {
      read(times.readings.emplace_back());
      continue;
    }
    SectionHead head;
    read(head);
    SectionTimes& section = times.sections.emplace_back(SectionTimes{head.section, head.window_start, head.begin, {}});
    section.spans.resize(head.instructions);
    read_all(std::span(section.spans));
  }
  read(times.update);
  read(times.begin);
  read(times.end);
  return times;
}

}  // namespace plimsoll
