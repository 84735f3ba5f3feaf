// Samples of varying length from JSON: read, rendered by the chat template, tokenised, cut to rows and kept in the cache
// (sample_file.h). The name of a file of samples is a hash of all of its inputs, so it is made once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "data/chat_encoder.h"
#include "data/conversation.h"
#include "data/data_paths.h"
#include "data/sample_rules.h"
#include "data/source.h"
#include "formats/tokenizer/tokenizer.h"

namespace plimsoll {

struct SampleRequest {
  DataPaths paths;
  std::filesystem::path tokenizer;      // a folder, or a GGUF file
  std::filesystem::path trained;        // the folder of the weights, for the end token of documents
  std::filesystem::path chat_template;  // a file; empty: the one next to the tokenizer
  TrainedTurns turns = TrainedTurns::assistant;
  LongSamples too_long = LongSamples::automatic;
  std::int64_t row = 0;    // positions of a row
  std::int64_t vocab = 0;  // of the model
  double held_out = 0;     // share of the samples for validation, 0 to 1, by a hash of the tokens: equal samples stay together
  std::int64_t most_bytes = kMostSampleBytes;  // of a sample's JSON
  std::filesystem::path cache, elsewhere;      // folders for the files, see SourceRequest
};

struct SampleFiles {
  TokenFile train;
  std::optional<TokenFile> held_out;
};

// Makes the files if the cache lacks them. Errors are those of SampleReader, ChatEncoder and Tokenizer, and
//   E-CONFIG-VALUE     no vocabulary is given
//   E-DATA-EMPTY       there is no sample
//   E-CHAT-UNTRAINED   no sample has a trained token
//   E-DATA-VALIDATION  the held-out share is none of the samples, or all
//   E-DATA-TOKEN       the vocabulary is larger than the model's, or a sample has a token without a row in the weights
SampleFiles open_samples(const SampleRequest& request);
// The files from the cache; nothing if the cache lacks them. Reads the data for their hash.
std::optional<SampleFiles> find_samples(const SampleRequest& request);

// Visits the samples one by one before they are cut to rows, until `visit` returns false. Nothing is kept.
void show_samples(const SampleRequest& request,
                  const std::function<bool(const ChatSample&, const EncodedSample&, const Tokenizer&)>& visit);

// True for a sample of the held-out share (data/held_out.h).
bool is_held_out(std::span<const Token> tokens, double share);

}  // namespace plimsoll
