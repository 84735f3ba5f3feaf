// Parameters and averages of weights that are cut over ranks, as whole tensors. Read: the first rank gets the shards of all.
// Write: each rank gets the whole tensor and keeps its shard.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "collective/peers.h"
#include "program/program.h"
#include "run/device.h"

namespace plimsoll {

class SharedValues {
 public:
  // Everything outlives this. `event`: of Peers, for reads between the runs of sections.
  SharedValues(const Graph& graph, const Program& program, Device& device, Peers* peers, std::uint32_t event);

  // True if a rank has a copy of the whole in 16 bits, so that it needs all of the value.
  bool has_copy(ValueId value) const { return copies_.contains(value); }
  // True if ranks have shards of the value.
  bool has(ValueId value) const { return cuts_.contains(value); }

  // All of the value, in order and in several parts; on the first rank.
  void read(ValueId value, const Device::Sink& sink) const;
  // Sends shards to the first rank until it calls `end`. Both do nothing if no value is shared.
  void serve() const;
  void end() const;
  // Takes all of the value from the source, and writes the own shard and the copy in 16 bits, if there is one.
  void write(ValueId value, const Device::Source& source);
  // The hash of all that was written last; null before.
  const std::string* written_hash(ValueId value) const;

 private:
  // The own shard; a rank without one has no such value.
  void read_own(ValueId value, const Device::Sink& sink) const;
  // The bytes of the shard of a rank.
  Bytes bytes_of(ValueId value, int rank) const;

  const Program& program_;
  Device& device_;
  Peers* peers_;
  std::uint32_t event_;
  struct Copy {
    ValueId value;
    DType dtype = DType::bf16;
  };
  std::map<ValueId, std::vector<std::int64_t>> cuts_;  // in bytes
  std::map<ValueId, Copy> copies_;
  std::map<ValueId, std::string> hashes_;
};

}  // namespace plimsoll
