// The samples of an update, and the rows in which they lie. A window is cut from the order of samples before anything is said of
// memory, so the split into micro-batches never changes what an update sees. All of it is a pure function of a position in the
// order: a run can start at any window.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/order.h"
#include "data/sample_source.h"

namespace plimsoll {

struct WindowRule {
  std::int64_t samples = 0;    // of each window; 0: as many as `positions` hold
  std::int64_t positions = 0;  // of all samples of a window, at the most; a window has one sample at the least
  std::int64_t span = 0;       // a window ends where the order reaches a multiple of so many samples; 0: nowhere
  std::int64_t row = 1;        // positions of a row
  bool packs = false;          // samples share rows

  // Windows have different numbers of rows, their ends apart.
  bool varies() const { return packs || samples == 0; }

  friend bool operator==(const WindowRule&, const WindowRule&) = default;
};

struct Window {
  std::int64_t first = 0;  // position in the order
  std::int64_t samples = 0;
  std::int64_t units = 0;      // targets that count
  std::int64_t positions = 0;  // of all samples
  std::int64_t rows = 0;
  std::vector<PlacedSample> placed;  // by row, and by position in it; rows are counted from the begin of the window

  std::int64_t end() const { return first + samples; }
};

// Makes `window` the one that begins at a position. Without packing each sample has a row, in their order. With packing rows are
// filled by first fit, longest samples first and of equal ones the first in order (first-fit-decreasing; Johnson, 1973).
void cut_window(const SampleOrder& order, const SampleSource& source, const WindowRule& rule, std::int64_t first, Window& window);

// The micro-batches of windows, one after the other.
class WindowBatches {
 public:
  // Each has so many rows. `batches`: of every window, whose last ones may be empty; 0: as many as its rows take. The source
  // outlives this.
  WindowBatches(const SampleSource& source, SampleOrder order, WindowRule rule, std::int64_t rows, std::int64_t batches);

  // The next one is the first of the window that begins at this position.
  void seek(std::int64_t position);
  // Valid until the next call; rows are counted from the begin of the micro-batch.
  std::span<const PlacedSample> next();
  std::int64_t batches_of(const Window& window) const;

 private:
  const SampleSource& source_;
  SampleOrder order_;
  WindowRule rule_;
  std::int64_t rows_, batches_;
  Window window_;
  std::int64_t taken_ = 0;  // micro-batches of the window
  std::size_t placed_ = 0;  // samples of the window that these had
  std::vector<PlacedSample> batch_;
};

}  // namespace plimsoll
