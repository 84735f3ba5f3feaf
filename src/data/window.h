// The samples of an update and their rows. A window is cut from the order of samples before memory is planned, so the split into
// micro-batches never changes the content of an update. A window is a pure function of a position in the order: a run can start
// at any window.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/order.h"
#include "data/sample_source.h"

namespace plimsoll {

struct WindowRule {
  std::int64_t samples = 0;    // per window; 0: limited by `positions` only
  std::int64_t positions = 0;  // limit for all samples of a window; a window has at least one sample
  std::int64_t span = 0;       // a window ends at each multiple of `span` samples of the order; 0: no such end
  std::int64_t row = 1;        // positions of a row
  bool packs = false;          // samples share rows

  // True if windows have different numbers of rows. Shorter windows at an end do not count.
  bool varies() const { return packs || samples == 0; }

  friend bool operator==(const WindowRule&, const WindowRule&) = default;
};

struct Window {
  std::int64_t first = 0;  // position in the order
  std::int64_t samples = 0;
  std::int64_t units = 0;      // targets that count
  std::int64_t positions = 0;  // of all samples
  std::int64_t rows = 0;
  std::vector<PlacedSample> placed;  // by row and position; rows count from the begin of the window

  std::int64_t end() const { return first + samples; }
};

// Makes `window` the one that begins at position `first`. Without packing each sample has a row, in their order. Packed rows are
// filled by first fit, longest samples first, ties in order (first-fit-decreasing; Johnson, 1973).
void cut_window(const SampleOrder& order, const SampleSource& source, const WindowRule& rule, std::int64_t first, Window& window);

// The share of one of several ranks in the micro-batches of a window: number m goes to rank m modulo `ranks`.
struct BatchShare {
  std::int64_t rank = 0, ranks = 1;
};

// The micro-batches of windows, one after the other.
class WindowBatches {
 public:
  // Each micro-batch has `rows` rows. `batches`: per window and rank, the last ones may be empty; 0: the number that its rows
  // take. All ranks have as many. The source outlives this.
  WindowBatches(const SampleSource& source, SampleOrder order, WindowRule rule, std::int64_t rows, std::int64_t batches,
                BatchShare share = {});

  // The next micro-batch is the first of the window that begins at this position.
  void seek(std::int64_t position);
  // The next micro-batch, valid until the next call; rows count from its begin.
  std::span<const PlacedSample> next();
  std::int64_t batches_of(const Window& window) const;

 private:
  const SampleSource& source_;
  SampleOrder order_;
  WindowRule rule_;
  std::int64_t rows_, batches_;
  BatchShare share_;
  Window window_;
  std::int64_t taken_ = 0;  // micro-batches of the window
  std::size_t placed_ = 0;  // samples of these micro-batches
  std::vector<PlacedSample> batch_;
};

}  // namespace plimsoll
