-- True costs that became known after what they belong to was reported: _coordinator/settlement.py in
-- Lua, which has the reasons.

-- Pairs of age and cost as pairs of time stamp and cost, times `part`.
local function stamped(pairs_, period, part)
  local entries = {}
  for i = 1, #pairs_, 2 do
    entries[i] = ledger.slice_end(limit.now - max(0, pairs_[i]), period)
    entries[i + 1] = pairs_[i + 1] * part
  end
  return entries
end

-- Takes refunds back, up to what permits of this instance may have cost; of that, as much as is said
-- counts from another time on. Returns how much does not count any more.
local function refund(bound, one, said)
  local entries, taken = state.ledger_of(bound), 0
  for i = 1, #said.refunds, 2 do
    local cost = min(max(0, said.refunds[i + 1] * bound.stayed),
      one.refundable_before + one.refundable)
    local older = min(cost, one.refundable_before)
    one.refundable_before = one.refundable_before - older
    one.refundable = max(0, one.refundable - (cost - older))
    taken = taken + ledger.subtract(entries, said.refunds[i], cost)
  end
  local moved = stamped(said.moved, bound.period, bound.stayed)
  local counting = ledger.believed(moved, taken, limit.now - state.counts_of(bound))
  ledger.merge(entries, counting)
  for i = 2, #counting, 2 do
    taken = taken - counting[i]
  end
  return max(0, taken)
end

-- What permits cost is kept by epochs, each as long as the entry of a permit may count.
local function forget_older_permits(record, bound, one)
  local epoch = bound.lasting + MAX_PERMIT_MS + max(1, floor(bound.period / SLICES))
  local passed = floor(limit.now / epoch) - floor(record.seen / epoch)
  if passed ~= 0 then
    one.refundable_before = passed == 1 and one.refundable or 0
    one.refundable = 0
  end
end

-- Follows what a request says of costs that are known by now.
function settlement.settle(record, request, uncertain)
  local may_refund = not uncertain and request.server == limit.server
  local refunded, any = {}, false
  for b, bound in ipairs(limit.bounds) do
    refunded[b] = 0
    if not bound.slots then
      local one, said = record.bounds[b], request.bounds[b]
      forget_older_permits(record, bound, one)
      if may_refund and said.wave == bound.wave and #said.refunds > 0 then
        refunded[b] = refund(bound, one, said)
        any = any or refunded[b] ~= 0
      end
      if #said.debts > 0 then
        local owed = ledger.believed(stamped(said.debts, bound.period, 1),
          state.most_in_force(bound), limit.now - state.counts_of(bound))
        ledger.merge(state.ledger_of(bound), owed)
      end
    end
  end
  if any and permits.is_short() then -- what it did not cost does not delay its next turn
    local ones = {}
    for b = 1, #refunded do
      ones[b] = 1
    end
    local main = permits.dominant(record, ones)
    for b = 1, #refunded do
      refunded[b] = b == main and refunded[b] or 0
    end
    record.turn = record.turn - permits.time_for(record, refunded)
  end
end
