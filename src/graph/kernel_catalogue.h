// Planning's view of kernels without linking any: the implementation for an op with its types, its scratch and its seconds.
// Answers are live (from the libraries of this machine), recorded (a machine file) or bounds (a roofline). Implementation and
// bytes never depend on the budget or on timing.
#pragma once

#include <string>
#include <string_view>

#include "base/bytes.h"
#include "graph/op.h"

namespace plimsoll {

enum class CostSource : std::uint8_t { measured, recorded, bound };
std::string_view name(CostSource source);

struct KernelRequest {
  const OpDef* op = nullptr;
  const Attributes* attributes = nullptr;
  TypeSpan inputs, outputs;
  int threads = 1;
  int chunks = 1;            // number of chunks of a chunked op
  bool overwrite = false;    // the first micro-step of a window: writes the outputs to which later micro-steps add
  bool in_ranges = false;    // the kernel works on ranges of its largest operands (RangeRule)
  bool with_library = true;  // a library may run matrix products; else Plimsoll's own kernel does
};

// The key of a bound kernel, for example "scale[factor=2](f32(1024, 768))x1t2": op, attributes, input types, chunks, threads, a
// "w" if it writes its accumulators and an "r" if it works on ranges.
std::string kernel_key(const KernelRequest& request);
// The key of measured seconds in machine files: kernel_key without the "r" and without the key of the noise, which does not
// change the time.
std::string timing_key(const KernelRequest& request);
// timing_key for a chunked op in one piece: neither its bits nor a library's choice for it depend on the chunks.
std::string algorithm_key(KernelRequest request);

// The most kernels that one call launches on a GPU, for all ops but a few. Most ops launch one, so a sum covers a loss.
inline constexpr std::int64_t kUsualLaunches = 3;

struct KernelChoice {
  std::string implementation;
  Bytes scratch;
  int primitives = 0;                      // distinct pieces of generated code
  std::int64_t launches = kUsualLaunches;  // at most, of one call on a GPU
  double work = 1;  // its arithmetic as a multiple of the op's: above 1 if a chunked op computes parts twice
  double seconds = 0;
  CostSource source = CostSource::bound;
};

class KernelCatalogue {
 public:
  virtual ~KernelCatalogue() = default;
  virtual KernelChoice choose(const KernelRequest& request) = 0;
  // True if the kernel of an op with a rule for ranges works on them.
  virtual bool takes_ranges(const OpDef&) const { return true; }
};

}  // namespace plimsoll
