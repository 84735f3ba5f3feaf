// Images with labels as a set of data: arrays of published files, unpacked once into a file of the cache. A held-out share is
// chosen by a hash of the pixels, so equal images lie on one side.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/data_set.h"
#include "data/image_file.h"
#include "data/image_source.h"

namespace plimsoll {

class ImageSet final : public DataSet {
 public:
  // `format`: as data.format names it.
  ImageSet(ImageFile images, ImageRule rule, std::string format)
      : images_(std::move(images)), rule_(std::move(rule)), format_(std::move(format)) {}

  const ImageFile& images() const { return images_; }
  const ImageRule& rule() const { return rule_; }

  const DataKind& kind() const override;
  const std::string& name() const override { return images_.name; }
  std::string format() const override { return format_; }
  const std::vector<std::string>& notes() const override { return notes_; }
  std::int64_t count(const Reading&) const override { return images_.images; }
  std::unique_ptr<SampleSource> source(const Reading& reading) const override;
  RowShape row_shape(bool packs) const override;
  std::int64_t classes() const override { return images_.classes; }
  std::string content_hash() const override { return plimsoll::content_hash(images_); }
  std::optional<Recurring> check_validation(const DataSet& validation, const Reading& reading,
                                            std::int64_t samples) const override;
  nlohmann::json place() const override;
  std::int64_t most_extracted(const Reading&) const override { return images_.images; }
  DataExtract extract(const std::filesystem::path& folder, std::int64_t samples, const Reading& reading) const override;

 private:
  std::int64_t last_of_extract(std::int64_t samples) const;

  ImageFile images_;
  ImageRule rule_;
  std::string format_;
  std::vector<std::string> notes_;
};

}  // namespace plimsoll
