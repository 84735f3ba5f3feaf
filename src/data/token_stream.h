// A stream of tokens as a set of data: samples are cut from it by the row.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/data_set.h"
#include "data/source.h"

namespace plimsoll {

class TokenStream final : public DataSet {
 public:
  explicit TokenStream(TokenFile file) : file_(std::move(file)) {}

  const TokenFile& file() const { return file_; }

  const DataKind& kind() const override;
  const std::string& name() const override { return file_.name; }
  std::string format() const override { return file_.format; }
  const SampleCounts& counts() const override { return file_.counts; }
  const std::vector<std::string>& notes() const override { return file_.notes; }
  std::int64_t count(const Reading& reading) const override;
  std::unique_ptr<SampleSource> source(const Reading& reading) const override;
  RowShape row_shape(bool packs) const override;
  std::int64_t positions() const override { return file_.tokens; }
  bool is_bytes() const override { return file_.bytes_per_token == 1; }
  bool has_bare_tokens() const override;
  std::string content_hash() const override { return plimsoll::content_hash(file_); }
  std::optional<Recurring> check_validation(const DataSet& validation, const Reading& reading,
                                            std::int64_t samples) const override;
  nlohmann::json place() const override;
  std::int64_t most_extracted(const Reading& reading) const override;
  Error too_short(const Reading& reading) const override;
  DataExtract extract(const std::filesystem::path& folder, std::int64_t samples, const Reading& reading) const override;

 private:
  TokenFile file_;
};

}  // namespace plimsoll
