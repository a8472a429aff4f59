#include "machine/access.hpp"

namespace tandem::model {

namespace {
constexpr std::uint32_t kLongSet = 512;
}

ReadSet AccessLog::push(ReadSet rest, AccessId read) {
  nodes_.push_back({rest, read, nodes_[rest].length + 1});
  return static_cast<ReadSet>(nodes_.size() - 1);
}

ReadSet AccessLog::with(ReadSet set, AccessId read) {
  if (set != 0 && accesses_[nodes_[set].read].entity == accesses_[read].entity) return push(nodes_[set].rest, read);
  const ReadSet longer = push(set, read);
  return nodes_[longer].length > kLongSet ? compact(longer) : longer;
}

// Memory that is read again and again and never rewritten: keep the newest read of each entity.
ReadSet AccessLog::compact(ReadSet set) {
  std::vector<AccessId> newest;
  std::vector<bool> seen;
  for (; set != 0; set = nodes_[set].rest) {
    const Entity entity = accesses_[nodes_[set].read].entity;
    if (entity >= seen.size()) seen.resize(entity + 1u);
    if (!seen[entity]) newest.push_back(nodes_[set].read);
    seen[entity] = true;
  }
  ReadSet compacted = 0;
  for (auto read = newest.rbegin(); read != newest.rend(); ++read) compacted = push(compacted, *read);
  nodes_[compacted].length = 0;  // counts growth from here, so that a set with many entities is not compacted at every step
  return compacted;
}

}  // namespace tandem::model
