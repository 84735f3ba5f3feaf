// A curve of any length in bounded memory: the least and the greatest value of each stretch stay, so no spike is lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace plimsoll {

struct DataPoint {
  double x = 0, y = 0;
};

class Thinned {
 public:
  // The number of stretches, at most.
  explicit Thinned(std::size_t most = 700) : most_(most) {}

  // In ascending x. Values that are not finite are counted and left out.
  void add(double x, double y);
  bool empty() const { return stretches_.empty(); }
  std::int64_t left_out() const { return left_out_; }
  double first_left_out() const { return first_left_out_; }
  // In ascending x: of each stretch its extremes, and the very first and last value.
  std::vector<DataPoint> points() const;

 private:
  struct Stretch {
    DataPoint least, greatest;
  };

  std::size_t most_;
  std::int64_t length_ = 1, filled_ = 0;  // values of a stretch; of the last one
  std::vector<Stretch> stretches_;
  DataPoint first_, last_;
  std::int64_t left_out_ = 0;
  double first_left_out_ = 0;
};

// The exponential mean of values, without the pull of its start. A half-life of n values.
class Smoothed {
 public:
  explicit Smoothed(double half_life);
  double add(double value);

 private:
  double keep_, sum_ = 0, weight_ = 0;
};

}  // namespace plimsoll
