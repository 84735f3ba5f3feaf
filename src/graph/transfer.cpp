#include "graph/transfer.h"

namespace plimsoll {
namespace {

std::vector<ValueType> same(const Attributes&, TypeSpan inputs) { return {inputs.front()}; }

Cost no_cost(const Attributes&, TypeSpan, TypeSpan) { return {}; }

template <std::size_t kInput>
std::vector<Alias> in_place(const Attributes&) {
  return {{kInput, 0, AliasKind::updates}};
}

constexpr OpDef transfer_op(const char* name, Transfer transfer, std::vector<Alias> (*aliases)(const Attributes&) = nullptr) {
  return {.name = name,
          .infer = same,
          .cost = no_cost,
          .not_differentiable = "transfers are inserted after the gradients",
          .aliases = aliases,
          .transfer = transfer};
}

}  // namespace

constinit const OpDef kFetch = transfer_op("fetch", Transfer::fetch);
constinit const OpDef kFetched = transfer_op("fetched", Transfer::fetched, in_place<0>);
constinit const OpDef kStore = transfer_op("store", Transfer::store, in_place<0>);
constinit const OpDef kStored = transfer_op("stored", Transfer::stored, in_place<1>);

}  // namespace plimsoll
