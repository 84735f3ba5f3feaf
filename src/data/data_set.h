// Data between a configuration and a trainer. A set of data counts its samples, makes their source, and knows the bytes of a
// row. It hashes its content, checks validation data, and passes from the process that opens it to the one that trains. Each kind
// of data (a stream of tokens, conversations, images) is one implementation; data_kinds.h lists them, and no other folder knows
// them by name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/remedy.h"
#include "data/data_request.h"
#include "data/recurrence.h"
#include "data/sample_counts.h"
#include "data/sample_source.h"

namespace plimsoll {

struct DataKind;  // data_kinds.h

// The raw bytes of a row in the staging buffer, linear in the positions of the row.
struct RowBytes {
  std::int64_t per_position = 1, beside = 1;

  constexpr RowBytes() = default;  // a stream of bytes
  constexpr RowBytes(std::int64_t per_position, std::int64_t beside) : per_position(per_position), beside(beside) {}
  // A row of a stream of tokens has one token more than positions.
  static constexpr RowBytes of_stream(std::int64_t bytes_per_token) { return {bytes_per_token, bytes_per_token}; }

  // The staging buffer of a micro-batch of `rows` rows with `positions` positions, a multiple of 64.
  std::int64_t of(std::int64_t rows, std::int64_t positions) const;

  friend bool operator==(const RowBytes&, const RowBytes&) = default;
};

// The inputs of a model's graph that follow from the data.
struct RowShape {
  RowBytes bytes;
  std::int64_t image_size = 0;  // pixels of a side; 0: no images

  friend bool operator==(const RowShape&, const RowShape&) = default;
};
// A shape with room for the rows of both.
RowShape both(const RowShape& a, const RowShape& b);

// The rule by which the samples of a set become rows.
struct Reading {
  std::int64_t row = 1;    // positions of a row
  bool packs = false;      // rows hold several samples, if these have lengths of their own
  bool augments = false;   // samples vary at random: training
  std::uint64_t seed = 0;  // of these variations
};

// A short part of a set in files of its own.
struct DataExtract {
  Changes changes;                  // the keys of a configuration that reads the part
  std::vector<std::int64_t> units;  // of each sample
};

class DataSet {
 public:
  virtual ~DataSet() = default;

  virtual const DataKind& kind() const = 0;
  virtual const std::string& name() const = 0;  // the user's, for messages
  virtual std::string format() const = 0;       // a value of data.format
  // Treatment of the original samples, for reports.
  virtual const SampleCounts& counts() const;
  virtual const std::vector<std::string>& notes() const = 0;  // remarks for the user

  // The samples of an epoch.
  virtual std::int64_t count(const Reading&) const = 0;
  // The set outlives the source.
  virtual std::unique_ptr<SampleSource> source(const Reading&) const = 0;
  virtual RowShape row_shape(bool packs) const = 0;
  // True if samples differ in length. Otherwise all but the last one fill a row.
  virtual bool own_lengths() const { return false; }
  // The positions of all samples, if they do not depend on the row; else 0.
  virtual std::int64_t positions() const { return 0; }
  // True if token ids are the bytes of a text.
  virtual bool is_bytes() const { return false; }
  // True for token ids of a vocabulary that the data do not name.
  virtual bool has_bare_tokens() const { return false; }
  // Samples have targets below this number, if they are classes; 0: they are none.
  virtual std::int64_t classes() const { return 0; }

  // 32 hex digits over everything that training reads.
  virtual std::string content_hash() const = 0;
  // Finds faults of validation data (the first `samples` samples; 0: all) before a training on this set begins. Returns how many
  // of its samples the training has seen, if that can be said.
  virtual std::optional<Recurring> check_validation(const DataSet& validation, const Reading& reading,
                                                    std::int64_t samples) const = 0;
  // The object from which another process opens the same set (data_set_at). data_error E-DATA-PATH for a path that JSON cannot
  // hold.
  virtual nlohmann::json place() const = 0;

  // The samples that an extract can have; 0: there are no extracts of such data.
  virtual std::int64_t most_extracted(const Reading&) const { return 0; }
  // E-DATA-SHORT: there are fewer than two samples to extract.
  virtual Error too_short(const Reading& reading) const;
  // Writes the first `samples` samples, the last one cut short if samples can differ. Random variations of samples are off in the
  // changes. Replaces files of an earlier extract in the folder.
  virtual DataExtract extract(const std::filesystem::path& folder, std::int64_t samples, const Reading& reading) const;
};

// The data of a training.
struct DataFiles {
  std::unique_ptr<DataSet> train;
  std::unique_ptr<DataSet> validation;  // null: none
};

// The assumptions of planning about missing data.
struct AssumedData {
  std::string key, path, format;
  RowBytes bytes;
  std::string as;      // "a file of format \"u16\", 2 bytes a token"
  bool there = false;  // the data exist, but have not been prepared yet
};

}  // namespace plimsoll
