// Samples of varying length, encoded once into a file: a header, the tokens of all samples one after the other, and a record of
// each sample. A token takes four little-endian bytes; its highest bit marks a trained target. The file opens as a TokenFile with
// `samples` above 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "data/sample_source.h"
#include "data/source.h"
#include "formats/atomic_file.h"
#include "formats/tokenizer/token.h"

namespace plimsoll {

inline constexpr std::uint32_t kTrainedToken = 0x80000000;

// The place of a sample in the file.
struct SampleRecord {
  std::uint64_t first = 0;  // its first token
  std::uint32_t tokens = 0, units = 0;
};

class SampleFileWriter {
 public:
  explicit SampleFileWriter(const std::filesystem::path& target);

  // At least two tokens. All but the first are targets; `trained` has 1 for each that counts. A sample without one is an internal
  // error.
  void add(std::span<const Token> tokens, std::span<const std::uint8_t> trained);
  std::int64_t samples() const { return std::ssize(records_); }
  // Makes the file visible. An internal error without a sample.
  void commit(const SampleCounts& counts = {});

 private:
  std::filesystem::path target_;
  AtomicFile file_;
  std::vector<SampleRecord> records_;
  std::vector<Token> row_;
  std::uint64_t tokens_ = 0, largest_ = 0;
  Hasher hasher_;
};

// `verify` reads all of the file and compares its seal. data_error E-DATA-FORMAT: the file is cut, or no sample file.
// E-DATA-TOKEN: a token is past the vocabulary.
TokenFile open_sample_file(File file, std::string name, std::int64_t vocab, bool verify, bool keeps_vocab = false);

// The samples of a file in rows of `row` positions, one or several per row. A sample of n tokens takes n - 1 positions.
class StoredSamples : public SampleSource {
 public:
  // The file outlives this. `packs`: rows hold several samples. data_error E-DATA-LONG: a sample does not fit a row.
  StoredSamples(const TokenFile& file, std::int64_t row, bool packs);

  std::int64_t count() const override { return file_.samples; }
  SampleSize size(std::int64_t sample) const override;
  // The most bytes that read() writes for a row.
  static std::int64_t staging_bytes_per_row(std::int64_t row, bool packs);
  std::int64_t staging_bytes(std::int64_t rows) const override;
  void read(std::span<const PlacedSample> samples, std::span<std::byte> staging) const override;
  void drop(std::span<const PlacedSample> samples) const override;
  // "tokens" and "targets" i32 [batch, row]; "sample_ids" u32 [batch, 2]; for packed rows [batch, row, 3] with "segments" and
  // "positions" i32 [batch, row]. The rest of a row after its samples is a separate segment; its targets do not count.
  void fill(std::span<const PlacedSample> samples, std::span<const std::byte> staging,
            std::span<const FieldBuffer> fields) const override;

 private:
  SampleRecord record(std::int64_t sample) const;

  const TokenFile& file_;
  std::int64_t row_;
  bool packs_;
};

}  // namespace plimsoll
