// The kernel catalogue of this machine's CPU: implementation and scratch from the kernels themselves (oneDNN is asked, nothing is
// run), seconds from what `plimsoll machine` recorded or else from the roofline.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "graph/kernel_catalogue.h"
#include "graph/roofline.h"

namespace plimsoll {

class CpuCatalogue : public KernelCatalogue {
 public:
  // `recorded`: seconds by timing_key. Without `library` no library is asked: the catalogue is the same on every processor.
  CpuCatalogue(Roofline roofline, std::unordered_map<std::string, double> recorded, bool library = true)
      : roofline_(roofline), recorded_(std::move(recorded)), library_(library) {}

  // Several threads may ask.
  KernelChoice choose(const KernelRequest& asked) override;
  // What choose() has been asked for, for measuring.
  const std::unordered_map<std::string, KernelChoice>& asked() const { return asked_; }

 private:
  std::optional<double> recorded_seconds(KernelRequest request, double work) const;

  Roofline roofline_;
  std::unordered_map<std::string, double> recorded_;
  bool library_;
  std::mutex mutex_;
  std::unordered_map<std::string, KernelChoice> asked_;
};

}  // namespace plimsoll
