// What planning has to know of kernels without linking any: for an op with its types, which implementation runs, how much scratch
// it needs and how long it takes. Answers are live (the libraries of this machine are asked), recorded (a machine file) or bounds
// (a roofline). Implementation and bytes never depend on the budget or on timing.
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
  int chunks = 1;            // of a chunked op
  bool overwrite = false;    // the first micro-step of a window: outputs are written where later micro-steps add
  bool in_ranges = false;    // the op is handed its largest operands range by range
  bool with_library = true;  // matrix products may be a library's; else our own kernel runs them
};

// "scale[factor=2](f32(1024, 768))x1t2": what a kernel is bound by: op, attributes, input types, chunks, threads, a "w" where it
// writes its accumulators and an "r" where it works on ranges.
std::string kernel_key(const KernelRequest& request);
// The same without the key of the noise, which changes with seed and site but not the time, and without the "r": the key of
// measured seconds in machine files.
std::string timing_key(const KernelRequest& request);
// The same of a chunked op in one piece: its bits do not depend on the chunks, nor does what a library chooses for it.
std::string algorithm_key(KernelRequest request);

struct KernelChoice {
  std::string implementation;
  Bytes scratch;
  int primitives = 0;  // distinct pieces of generated code that it needs
  double work = 1;     // its arithmetic as a multiple of the op's: more than 1 where a chunked op computes something twice
  double seconds = 0;
  CostSource source = CostSource::bound;
};

class KernelCatalogue {
 public:
  virtual ~KernelCatalogue() = default;
  virtual KernelChoice choose(const KernelRequest& request) = 0;
  // Whether the kernel of an op works on ranges where the op has a rule for them.
  virtual bool takes_ranges(const OpDef&) const { return true; }
};

}  // namespace plimsoll
