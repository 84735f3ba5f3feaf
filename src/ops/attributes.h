// The attributes that ops of several families share.
#pragma once

namespace plimsoll::ops {

struct NoAttributes {
  friend bool operator==(const NoAttributes&, const NoAttributes&) = default;
  template <class V>
  void fields(V&&) const {}
};

// Of a gradient op: with `accumulate` its last inputs are the accumulators that it updates in place, else the results are plain
// gradients.
struct AccumulateAttributes {
  bool accumulate = false;
  friend bool operator==(const AccumulateAttributes&, const AccumulateAttributes&) = default;
  template <class V>
  void fields(V&& v) const {
    v("accumulate", accumulate);
  }
};

}  // namespace plimsoll::ops
