// Conversations and other JSON samples as a set of data: samples of their own lengths, encoded once into a file of the cache.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/data_set.h"
#include "data/sample_maker.h"
#include "data/source.h"

namespace plimsoll {

class Conversations final : public DataSet {
 public:
  // `file`: of stored samples (sample_file.h).
  explicit Conversations(TokenFile file) : file_(std::move(file)) {}

  const TokenFile& file() const { return file_; }

  const DataKind& kind() const override;
  const std::string& name() const override { return file_.name; }
  std::string format() const override { return "chat"; }
  const SampleCounts& counts() const override { return file_.counts; }
  const std::vector<std::string>& notes() const override { return file_.notes; }
  std::int64_t count(const Reading&) const override { return file_.samples; }
  std::unique_ptr<SampleSource> source(const Reading& reading) const override;
  RowShape row_shape(bool packs) const override;
  bool own_lengths() const override { return true; }
  std::string content_hash() const override { return plimsoll::content_hash(file_); }
  std::optional<Recurring> check_validation(const DataSet& validation, const Reading& reading,
                                            std::int64_t samples) const override;
  nlohmann::json place() const override;

 private:
  TokenFile file_;
};

// The samples of these files; `held_out`: share of them that is another set.
SampleRequest sample_request(const DataRequest& request, const DataPaths& paths, double held_out);

}  // namespace plimsoll
