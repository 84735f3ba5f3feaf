// The kernel catalogue of our ops. Implementation and scratch come from the kernels themselves, without running them (for a GPU
// from shapes alone), seconds from the records of `plimsoll machine` or else from the roofline.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "graph/kernel_catalogue.h"
#include "graph/roofline.h"
#include "ops/op_kernels.h"

namespace plimsoll {

class OpCatalogue : public KernelCatalogue {
 public:
  // `recorded`: seconds by timing_key. `algorithms`: the choices of a library that planning does not ask, by algorithm_key, which
  // become a part of the implementation's name.
  OpCatalogue(Roofline roofline, std::unordered_map<std::string, double> recorded, const OpKernels& kernels = kCpuKernels,
              std::map<std::string, std::string> algorithms = {})
      : roofline_(roofline), recorded_(std::move(recorded)), kernels_(kernels), algorithms_(std::move(algorithms)) {}

  // Safe for concurrent calls.
  KernelChoice choose(const KernelRequest& request) override;
  bool takes_ranges(const OpDef& op) const override { return kernels_.takes_ranges(op); }
  // The requests to choose(), for measuring.
  const std::unordered_map<std::string, KernelChoice>& asked() const { return asked_; }

 private:
  std::optional<double> recorded_seconds(KernelRequest request, double work) const;
  std::string implementation_of(const KernelChoice& choice, const KernelRequest& request) const;

  Roofline roofline_;
  std::unordered_map<std::string, double> recorded_;
  OpKernels kernels_;
  std::map<std::string, std::string> algorithms_;
  std::mutex mutex_;
  std::unordered_map<std::string, KernelChoice> asked_;
};

}  // namespace plimsoll
