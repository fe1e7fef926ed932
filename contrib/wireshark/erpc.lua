-- Wireshark and tshark dissector for the eRPC packets of this project, alone and in bundles.
--
-- Use it once:        tshark -X lua_script:erpc.lua -r traffic.pcap
-- or always:          copy it into the folder that Help > About Wireshark > Folders calls
--                     "Personal Lua Plugins"
--
-- A UDP packet counts as eRPC if its port is 31850 (a preference of the protocol), if
-- "Decode As" says so, or, on any port, if its header is sound; the rest of that
-- conversation then counts too. The layout and the rules are those of package wire
-- (wire/doc.go); a header that breaks them is shown with the reason in erpc.malformed.
--
-- Sealed packets are shown with what they say in the clear, unless erpckeys.lua beside this file
-- opens them by a key log. On ports that nobody named they count if it does.
--
-- Filters: erpc, erpc.type == 3, erpc.flags.ce, erpc.flags.late, erpc.flags.cut > 0,
-- erpc.error_status == 14, erpc.left_ns < 1000000, erpc.malformed, erpc.reqnum == 17,
-- erpc.bundle.count > 1, ... A bundle has these fields once for each packet inside.

local erpc = Proto("erpc", "eRPC")

local HEADER, VERSION, OLD_VERSION, NO_SESSION = 24, 3, 2, 0xFFFFFF
local LOOP, KEY_PHASE = 2 ^ 24, 2 ^ 31 -- in the session field: one loop, and the highest bit
local BUNDLE_HEADER, RECORD = 16, 12 -- bytes; of a record without what only some have
local REQ, RFR, CR, RESP, MGMT, ERR, WAIT, PAST, CANCEL, ACK = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
local BUNDLE, SEALED = 10, 11
local SEALED_HEAD, SEALED_VERSION = 12, 3

local types = { [REQ] = "REQ", [RFR] = "RFR", [CR] = "CR", [RESP] = "RESP", [MGMT] = "MGMT",
  [ERR] = "ERR", [WAIT] = "WAIT", [PAST] = "PAST", [CANCEL] = "CANCEL", [ACK] = "ACK",
  [BUNDLE] = "BUNDLE", [SEALED] = "SEALED" }
local ops = { "CONNECT", "CHALLENGE", "ACCEPT", "REFUSE", "DISCONNECT", "DISCONNECTACK", "PING",
  "PONG", "RESET", "MOVED", "DRAIN", "DRAINACK", "CRYPTO", "OPEN", "NOKEYS" }
-- at least, bytes, by operation
local body_size = { 64, 24, 48, 16, 24, 24, 24, 24, 24, 24, 24, 24, 16, 64, 24 }
local codes = { [0] = "ok", "no handler", "too large", "resource exhausted", "shutting down",
  "application error", "bad offer", "handler panicked", "cancelled", "deadline exceeded",
  "response forgotten",
  "security demanded by one side only", "identity refused" }
local extensions = { "what the server has taken", "index of the sender" }
local statuses = { [0] = "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED",
  "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
  "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
  "UNAUTHENTICATED" }
local cuts = { [0] = "as agreed", "1452 bytes", "1232 bytes", "1024 bytes" }
local ERROR_HEADER, MAX_TEXT, MAX_DETAILS = 8, 512, 480 -- of the body of an ERR, bytes
local MAX_ERROR = ERROR_HEADER + MAX_TEXT + MAX_DETAILS
local HOLE, MAX_HOLES, MAX_PACKETS = 4, 32, 2 ^ 20 -- of the list in a CR: bytes, holes, packets

-- What goes from a server to a client. Since version 3 it has a host delay in place of its request
-- type, which is that of the request.
local answers = { [CR] = true, [RESP] = true, [ERR] = true, [WAIT] = true, [PAST] = true }

-- The flags that the type of a packet has. The second bit (2) means something else in each.
local allowed = { [REQ] = 14, [RFR] = 12, [CR] = 15, [RESP] = 15, [MGMT] = 0, [ERR] = 14,
  [WAIT] = 15, [PAST] = 0, [CANCEL] = 0, [ACK] = 0 }

local bad_size = "payload does not fit the packet type or the message size"
local bad_flags = "reserved bits set, or flags that the packet type does not have"
local bad_session = "session number missing or out of range"
local bad_bundle = "a bundle's packets do not fit its count or its content"

local f = {
  version = ProtoField.uint8("erpc.version", "Version", base.DEC, nil, 0xF0),
  type = ProtoField.uint8("erpc.type", "Type", base.DEC, types, 0x0F),
  reqtype = ProtoField.uint8("erpc.reqtype", "Request type", base.DEC),
  delay = ProtoField.uint8("erpc.host_delay", "Host delay field", base.HEX),
  delay_ns = ProtoField.uint32("erpc.host_delay_ns", "In the server's host, ns", base.DEC),
  hole_first = ProtoField.uint32("erpc.hole.first", "First missing packet", base.DEC),
  hole_count = ProtoField.uint32("erpc.hole.count", "Missing packets", base.DEC),
  op = ProtoField.uint8("erpc.op", "Operation", base.DEC, ops),
  hold = ProtoField.uint16("erpc.hold", "Hold field", base.HEX),
  try = ProtoField.uint8("erpc.try", "Try, mod 64", base.DEC),
  hold_ns = ProtoField.uint32("erpc.hold_ns", "Held by the server, ns", base.DEC),
  left_ns = ProtoField.uint64("erpc.left_ns", "Left until the client gives up, ns", base.DEC),
  size = ProtoField.uint32("erpc.size", "Message size, bytes; in an RFR packets more than one", base.DEC),
  flags = ProtoField.uint8("erpc.flags", "Flags", base.HEX),
  ce = ProtoField.bool("erpc.flags.ce", "CE echo", 8, nil, 0x10),
  quiet = ProtoField.bool("erpc.flags.quiet", "Quiet", 8, nil, 0x20),
  gap = ProtoField.bool("erpc.flags.gap", "Gap", 8, nil, 0x20),
  late = ProtoField.bool("erpc.flags.late", "Late", 8, nil, 0x20),
  keep = ProtoField.bool("erpc.flags.keep", "Keep", 8, nil, 0x20),
  cut = ProtoField.uint8("erpc.flags.cut", "Cut, packets of", base.DEC, cuts, 0xC0),
  session = ProtoField.uint32("erpc.session", "Session at the receiver", base.DEC),
  loop = ProtoField.uint8("erpc.loop", "Loop of the receiver", base.DEC, nil, 0x7F),
  phase = ProtoField.bool("erpc.phase", "Key phase", 8, nil, 0x80),
  token = ProtoField.uint32("erpc.token", "Token, or token XOR checksum", base.HEX),
  reqnum = ProtoField.uint64("erpc.reqnum", "Request number", base.DEC),
  pktnum = ProtoField.uint32("erpc.pktnum", "Packet number", base.DEC),
  data_len = ProtoField.uint32("erpc.data_len", "Bytes of the message in this packet", base.DEC),
  data = ProtoField.bytes("erpc.data", "Data"),
  error_status = ProtoField.uint8("erpc.error_status", "Status", base.DEC, statuses),
  error_code = ProtoField.uint8("erpc.error_code", "Error code", base.DEC, codes),
  error_ran = ProtoField.bool("erpc.error_ran", "The handler ran", 8, nil, 0x01),
  error_text = ProtoField.string("erpc.error_text", "Error text", base.UNICODE),
  error_details = ProtoField.bytes("erpc.error_details", "Error details"),
  error_malformed = ProtoField.string("erpc.error_malformed", "Malformed error"),
  nonce = ProtoField.uint64("erpc.nonce", "Nonce of the attempt to connect", base.HEX),
  epoch = ProtoField.uint64("erpc.epoch", "Epoch of the sender's endpoint", base.HEX),
  from_session = ProtoField.uint32("erpc.from_session", "Session at the sender", base.DEC),
  from_loop = ProtoField.uint8("erpc.from_loop", "Loop of the sender", base.DEC, nil, 0x7F),
  from_token = ProtoField.uint32("erpc.from_token", "Token of that session", base.HEX),
  credits = ProtoField.uint16("erpc.credits", "Credits", base.DEC),
  slots = ProtoField.uint16("erpc.slots", "Slots", base.DEC),
  mtu = ProtoField.uint32("erpc.mtu", "MTU, bytes", base.DEC),
  waiting = ProtoField.uint16("erpc.waiting", "Requests that may wait", base.DEC),
  max_message = ProtoField.uint32("erpc.max_message", "Largest message, bytes", base.DEC),
  features = ProtoField.uint32("erpc.features", "Features", base.HEX),
  checksum = ProtoField.bool("erpc.checksum", "Checksums", 32, nil, 1),
  bundles = ProtoField.bool("erpc.bundles", "Bundles", 32, nil, 2),
  ext_type = ProtoField.uint16("erpc.ext.type", "Extension", base.DEC, extensions),
  ext_value = ProtoField.bytes("erpc.ext.value", "Value"),
  asked = ProtoField.uint8("erpc.version_asked", "Version that is refused", base.DEC),
  least = ProtoField.uint8("erpc.version_least", "Least version of the sender", base.DEC),
  most = ProtoField.uint8("erpc.version_most", "Largest version of the sender", base.DEC),
  cookie = ProtoField.bytes("erpc.cookie", "Cookie"),
  code = ProtoField.uint8("erpc.code", "Reason", base.DEC, codes),
  seq = ProtoField.uint64("erpc.seq", "Sequence number", base.HEX),
  to_token = ProtoField.uint32("erpc.to_token", "Token of the receiver's session", base.HEX),
  count = ProtoField.uint8("erpc.bundle.count", "Packets inside", base.DEC),
  content = ProtoField.uint16("erpc.bundle.content", "Bytes of the packets inside", base.DEC),
  another = ProtoField.bool("erpc.bundle.another", "Another session than before", 8, nil, 0x10),
  whole = ProtoField.bool("erpc.bundle.whole", "Whole message, no flags", 8, nil, 0x20),
  padding = ProtoField.uint32("erpc.padding_len", "Padding, bytes", base.DEC),
  counter = ProtoField.uint64("erpc.sealed.counter", "Counter", base.DEC),
  index = ProtoField.uint32("erpc.sealed.index", "Index at the receiver", base.HEX),
  sealed_loop = ProtoField.uint8("erpc.sealed.loop", "Loop of the receiver", base.DEC, nil, 0x7F),
  sealed_phase = ProtoField.bool("erpc.sealed.phase", "Key phase", 8, nil, 0x80),
  encrypted = ProtoField.bytes("erpc.sealed.data", "Encrypted, with the tag"),
  quote = ProtoField.bytes("erpc.quote", "First bytes of the sealed packet"),
  offset = ProtoField.uint32("erpc.offset", "Offset in the sender's stream, bytes", base.DEC),
  ack = ProtoField.uint32("erpc.ack", "Bytes of the receiver's stream that have come", base.DEC),
  malformed = ProtoField.string("erpc.malformed", "Malformed"),
}
erpc.fields = f

local second = { [REQ] = f.quiet, [CR] = f.gap, [RESP] = f.late, [ERR] = f.late, [WAIT] = f.keep }

local bad = ProtoExpert.new("erpc.expert.malformed", "Malformed eRPC packet", expert.group.PROTOCOL, expert.severity.ERROR)
erpc.experts = { bad }

erpc.prefs.port = Pref.uint("UDP port", 31850, "UDP packets of this port are eRPC, whatever they look like")

erpc.prefs.keylog = Pref.string("Key log", "", "The file that erpc.Config.KeyLog wrote, for erpckeys.lua")

-- refusal shows a refusal of a version, whose layout is that of all versions.
local function refusal(tree, tvb, pinfo)
  pinfo.cols.info = "VERSION refused"
  if tvb:len() < 40 then return end -- cut short by the capture
  tree:add_le(f.nonce, tvb(24, 8))
  tree:add(f.asked, tvb(32, 1))
  tree:add(f.least, tvb(33, 1))
  tree:add(f.most, tvb(34, 1))
  pinfo.cols.info = string.format("VERSION %d refused, spoken are %d to %d", tvb(32, 1):uint(), tvb(33, 1):uint(), tvb(34, 1):uint())
end

local function is_refusal(tvb)
  return tvb:reported_len() >= 40 and tvb:len() >= HEADER and tvb(0, 4):le_uint() == MGMT and tvb(4, 4):uint() == 0 and
    tvb(8, 3):le_uint() == NO_SESSION and tvb(16, 4):uint() == 0 and tvb(20, 4):uint() == 0
end

-- whole reports whether the extensions in b from at on fill it exactly.
local function whole(b, at)
  while at < b:len() do
    if at + 4 > b:len() then return false end
    at = at + 4 + b(at + 2, 2):le_uint()
  end
  return at == b:len()
end

-- size_fits reports whether the packet type has a payload of this size.
local function size_fits(h)
  local type, payload, msgsize = h.type, h.payload, h.msgsize
  if type == REQ or type == RESP then return payload <= msgsize end
  if type == ERR then
    return payload == msgsize and payload >= ERROR_HEADER and payload <= MAX_ERROR
  end
  if type == CR and h.version ~= OLD_VERSION and math.floor(h.flags / 2) % 2 == 1 and payload > 0 then
    return payload == msgsize and payload % HOLE == 0 and payload <= MAX_HOLES * HOLE
  end
  return payload == 0 and (type == RFR or type == CR or msgsize == 0)
end

-- says_type reports whether a packet says its request type, or its operation.
local function says_type(h) return h.version == OLD_VERSION or not answers[h.type] end

-- is_session reports whether a session field names a session, of any loop.
local function is_session(field) return field < KEY_PHASE and field % LOOP ~= NO_SESSION end

-- only reports whether flags has no other bits than mask.
local function only(flags, mask)
  for bit = 0, 3 do
    local b = 2 ^ bit
    if math.floor(flags / b) % 2 == 1 and math.floor(mask / b) % 2 == 0 then return false end
  end
  return true
end

-- check_fields returns nil if the header of a packet other than management is sound, else why not,
-- in the words of package wire.
local function check_fields(h)
  if allowed[h.type] == nil then return "unknown packet type" end
  if not size_fits(h) then return bad_size end
  if not only(h.flags, allowed[h.type]) then return bad_flags end
  if h.reqtype > 254 and says_type(h) then return "request type out of range" end
  return not is_session(h.session_field) and bad_session or nil
end

-- check does the same for any packet alone.
local function check(tvb, h)
  if h.version ~= VERSION and h.version ~= OLD_VERSION then return "unknown protocol version" end
  if h.type ~= MGMT then return check_fields(h) end
  if ops[h.reqtype] == nil then return "request type out of range" end
  if h.flags ~= 0 then return bad_flags end
  if h.msgsize < body_size[h.reqtype] or h.payload < h.msgsize then return bad_size end
  if h.session_field % LOOP ~= NO_SESSION and h.session_field >= KEY_PHASE then
    return bad_session
  end
  if (h.reqtype == 1 or h.reqtype == 3 or h.reqtype == 14) and tvb:len() >= HEADER + h.msgsize and
    not whole(tvb(HEADER, h.msgsize), body_size[h.reqtype]) then
    return "an extension is longer than its packet"
  end
  return nil
end

-- add_first reads into h what a packet alone and a record have in the same place, from at on.
local function add_first(h, tvb, at)
  h.first, h.code, h.hold = tvb(at, 1), tvb(at + 1, 1), tvb(at + 2, 2)
  h.type, h.reqtype = h.first:uint() % 16, h.code:uint()
  return h
end

-- add_sizes reads msgsize and flags into h.
local function add_sizes(h, tvb, at)
  h.word, h.flag_bits = tvb(at, 4), tvb(at + 3, 1)
  local word = h.word:le_uint()
  h.msgsize, h.flags = word % 0x10000000, math.floor(word / 0x10000000)
end

-- add_reqnum reads into h the request number, of which six bytes are at at. Numbers are smaller in
-- version 3: the rest of the last byte belongs to the packet number.
local function add_reqnum(h, tvb, at)
  local upper = tvb(at + 4, 2):le_uint()
  if h.version ~= OLD_VERSION then upper = upper % 0x1000 end
  h.reqnum_range, h.reqnum = tvb(at, 6), UInt64.new(tvb(at, 4):le_uint(), upper)
end

-- read_header returns the header of a packet alone: values, and the ranges where they stand. At
-- least HEADER bytes are there.
local function read_header(tvb, size)
  local h = add_first({ payload = size - HEADER }, tvb, 0)
  h.version = math.floor(h.first:uint() / 16)
  add_sizes(h, tvb, 4)
  h.session_field, h.session_range = tvb(8, 4):le_uint(), tvb(8, 4)
  h.token_range, h.token = tvb(12, 4), tvb(12, 4):le_uint()
  add_reqnum(h, tvb, 16)
  if h.version == OLD_VERSION then
    h.pktnum_range, h.pktnum = tvb(22, 2), tvb(22, 2):le_uint()
  else
    h.pktnum_range, h.pktnum = tvb(21, 3), math.floor(tvb(21, 3):le_uint() / 16)
  end
  return h
end

-- read_record returns the packet whose record begins at at, of which left bytes are there, or nil
-- and why there is none. What the record does not say has no range. The header of a bundle stands
-- for the packet before the first.
local function read_record(tvb, at, left, before)
  if left < RECORD then return nil, bad_bundle end
  local h = add_first({ at = at, flags = 0, pktnum = 0, version = before.version }, tvb, at)
  local bits = math.floor(h.first:uint() / 16) -- another, whole, and two that are zero
  local another, is_whole = bits % 2 == 1, bits >= 2
  if bits >= 4 or another and before.count then return nil, bad_flags end
  if h.type == MGMT then return nil, "unknown packet type" end
  h.payload = tvb(at + 4, 2):le_uint()
  add_reqnum(h, tvb, at + 6)
  local upper = h.version ~= OLD_VERSION and math.floor(tvb(at + 11, 1):uint() / 16) or 0
  h.head = RECORD + (another and 8 or 0) + (is_whole and 0 or 6)
  if h.head + h.payload > left then return nil, bad_bundle end
  h.session_field, h.token, h.msgsize = before.session_field, before.token, h.payload
  if another then
    h.session_range, h.token_range = tvb(at + RECORD, 4), tvb(at + RECORD + 4, 4)
    h.session_field, h.token = h.session_range:le_uint(), h.token_range:le_uint()
  end
  if not is_whole then
    add_sizes(h, tvb, at + h.head - 6)
    h.pktnum_range = tvb(at + h.head - 2, 2)
    h.pktnum = upper * 0x10000 + h.pktnum_range:le_uint()
  elseif upper ~= 0 then
    return nil, bad_flags
  end
  local why = check_fields(h)
  return not why and h or nil, why
end

-- is_bundle reports whether tvb begins as a bundle does, least how many bytes a header takes then.
local function is_bundle(tvb)
  local first = tvb:len() > 0 and tvb(0, 1):uint()
  return first == VERSION * 16 + BUNDLE or first == OLD_VERSION * 16 + BUNDLE
end
local function least(tvb) return is_bundle(tvb) and BUNDLE_HEADER or HEADER end

-- read_bundle returns the header of a bundle with the packets inside that the capture has from end
-- to end, or nil and why the bundle is not sound. size is its true size; its header is there.
local function read_bundle(tvb, size)
  local b = { count = tvb(1, 1):uint(), content = tvb(2, 2):le_uint(),
    version = math.floor(tvb(0, 1):uint() / 16) }
  b.session_field, b.token = tvb(8, 4):le_uint(), tvb(12, 4):le_uint()
  if tvb(4, 4):le_uint() ~= 0 then return nil, bad_flags end
  if not is_session(b.session_field) then return nil, bad_session end
  b.stop = BUNDLE_HEADER + b.content
  if b.count == 0 or b.stop > size then return nil, bad_bundle end
  local at, there, before, why = BUNDLE_HEADER, math.min(tvb:len(), b.stop), b, nil
  for i = 1, b.count do
    before, why = read_record(tvb, at, there - at, before)
    if why == bad_bundle and there < b.stop then return b end
    if why then return nil, why end
    b[i], at = before, at + before.head + before.payload
  end
  if at ~= b.stop then return nil, bad_bundle end
  return b
end

-- add_hold shows what the hold field means, as far as this packet alone tells. Whether a
-- response packet is number 0 of its response is certain for packet 0, and for one that
-- holds the whole message.
local function add_hold(tree, h)
  local range, type = h.hold, h.type
  local hold = range:le_uint()
  local item = tree:add_le(f.hold, range)
  if type == MGMT or type == ACK then return end
  if type == ERR or type == RESP and (h.pktnum == 0 or h.payload == h.msgsize) then
    if hold ~= 0xFFFF then tree:add(f.hold_ns, range, hold * 64):set_generated()
    else item:append_text(" (longer than the field can say)") end
    return
  elseif type == RESP then
    item:append_text(" (time of response packet 0, or try and time of a later one)")
    return
  end
  tree:add(f.try, range, hold % 64):set_generated()
  local units = math.floor(hold / 64)
  if type == CR or type == WAIT then
    if units ~= 1023 then tree:add(f.hold_ns, range, units * 1024):set_generated()
    else item:append_text(" (longer than the field can say)") end
  elseif type == REQ and h.pktnum == 0 and units % 32 ~= 0 then
    local us = units % 32 * 2 ^ math.floor(units / 32) -- at most 18 hours
    local left = UInt64.new(us % 2 ^ 32, math.floor(us / 2 ^ 32)) * 1000
    tree:add(f.left_ns, range, left):set_generated()
  end
end

-- add_value shows a field where it stands, or as generated if it stands nowhere.
local function add_value(tree, field, range, value)
  return range and tree:add(field, range, value) or tree:add(field, value):set_generated()
end

-- add_session shows the parts of the session field.
local function add_session(tree, h)
  local range, number = h.session_range, h.session_field % LOOP
  local upper = math.floor(h.session_field / LOOP)
  local item = add_value(tree, f.session, range and range(0, 3), number)
  if number == NO_SESSION then item:append_text(" (none)") end
  add_value(tree, f.loop, range and range(3, 1), upper)
  add_value(tree, f.phase, range and range(3, 1), upper)
end

-- session_text names a session, and its loop if it has one.
local function session_text(field)
  local number, loop = field % LOOP, math.floor(field / LOOP) % 128
  return (number == NO_SESSION and "none" or tostring(number)) ..
    (loop > 0 and " loop=" .. loop or "")
end

-- add_from shows the sender's session in a body, of which b are the four bytes.
local function add_from(tree, b)
  tree:add_le(f.from_session, b(0, 3))
  tree:add(f.from_loop, b(3, 1))
end

-- The request types of requests, by addresses, session and number; "*" stands for all sessions, and
-- false for several types. Then the session of the requests by that of the answers, as an Accept
-- names both, and the types of the answers of each frame, by the packet's place in it.
local asked, ends, found = {}, {}, {}

-- learn notes what a sound packet says of the answers that follow, and returns the request type of
-- one that does not say it, nil if that is not known.
local function learn(pinfo, h, i)
  local frame = pinfo.number .. "/" .. i
  if pinfo.visited then return found[frame] end
  local src, dst = tostring(pinfo.src) .. ":" .. pinfo.src_port, tostring(pinfo.dst) .. ":" .. pinfo.dst_port
  local num = tostring(h.reqnum)
  if h.type == REQ or h.type == RFR or h.type == CANCEL then
    local way = src .. ">" .. dst .. "/"
    asked[way .. h.session_field .. "/" .. num] = h.reqtype
    local all = way .. "*/" .. num
    if asked[all] == nil or asked[all] == h.reqtype then asked[all] = h.reqtype
    else asked[all] = false end
  elseif h.type == MGMT and h.reqtype == 3 and h.from then
    ends[dst .. ">" .. src .. "/" .. h.session_field] = h.from
  elseif not says_type(h) then
    local way = dst .. ">" .. src .. "/"
    local typ = asked[way .. (ends[way .. h.session_field] or "*") .. "/" .. num]
    found[frame] = typ or nil
  end
  return found[frame]
end

-- add_type shows byte 1 of the header, and a request type that was learned.
local function add_type(tree, h, learned)
  if says_type(h) then
    tree:add(h.type == MGMT and f.op or f.reqtype, h.code)
    return
  end
  if learned then tree:add(f.reqtype, learned):set_generated() end
  tree:add(f.delay, h.code)
  local exp, units = math.floor(h.reqtype / 16), h.reqtype % 16
  if exp > 0 then units = (16 + units) * 2 ^ (exp - 1) end
  if units > 0 then tree:add(f.delay_ns, h.code, units * 1024):set_generated() end
end

-- add_header shows the header of a packet, alone or in a bundle.
local function add_header(tree, h, learned)
  tree:add(f.type, h.first)
  add_type(tree, h, learned)
  add_hold(tree, h)
  add_value(tree, f.size, h.word, h.msgsize)
  local flags = add_value(tree, f.flags, h.flag_bits, h.flags)
  local bits = h.flags * 16 -- as in the byte
  add_value(flags, f.ce, h.flag_bits, bits)
  if second[h.type] then add_value(flags, second[h.type], h.flag_bits, bits) end
  add_value(flags, f.cut, h.flag_bits, bits)
  add_session(tree, h)
  add_value(tree, f.token, h.token_range, h.token)
  tree:add(f.reqnum, h.reqnum_range, h.reqnum)
  add_value(tree, f.pktnum, h.pktnum_range, h.pktnum)
end

local function add_offer(tree, b)
  tree:add_le(f.max_message, b(0, 4))
  tree:add_le(f.credits, b(4, 2))
  tree:add_le(f.slots, b(6, 2))
  local features = tree:add_le(f.features, b(8, 4))
  features:add_le(f.checksum, b(8, 4))
  features:add_le(f.bundles, b(8, 4))
  tree:add_le(f.waiting, b(12, 2))
  tree:add_le(f.mtu, b(16, 4))
end

-- add_extensions shows what follows the least body of a Connect, an Open or an Accept, which is
-- whole.
local function add_extensions(tree, b, at)
  while at < b:len() do
    local size = b(at + 2, 2):le_uint()
    local item = tree:add_le(f.ext_type, b(at, 2))
    if size > 0 then item:add(f.ext_value, b(at + 4, size)) end
    at = at + 4 + size
  end
end

-- error_reason returns nil if b is a sound body of an ERR, else why not. It mirrors ParseError of
-- package wire.
local function error_reason(b)
  local details = b:len() - ERROR_HEADER - b(4, 2):le_uint()
  if b(4, 2):le_uint() > MAX_TEXT or details < 0 or details > MAX_DETAILS then return bad_size end
  local status = b(0, 1):uint()
  if status == 0 or statuses[status] == nil or b(1, 1):uint() == 0 then
    return "an error answer says that there is no error"
  end
  return nil
end

-- add_error shows the body of an ERR, which is whole, and returns its status in words.
local function add_error(tree, b)
  local why = error_reason(b)
  if why then
    tree:add(f.data, b)
    tree:add(f.error_malformed, b, why):set_generated()
    tree:add_proto_expert_info(bad, "Malformed error: " .. why)
    return "malformed"
  end
  local text = b(4, 2):le_uint()
  tree:add(f.error_status, b(0, 1))
  tree:add(f.error_code, b(1, 1))
  tree:add(f.error_ran, b(2, 1))
  if text > 0 then
    local range = b(ERROR_HEADER, text)
    tree:add(f.error_text, range, range:string(ENC_UTF_8))
  end
  if ERROR_HEADER + text < b:len() then tree:add(f.error_details, b(ERROR_HEADER + text)) end
  return statuses[b(0, 1):uint()]
end

-- add_body shows the body of a management packet; b is exactly that.
local function add_body(tree, b, op)
  if op == 1 or op == 3 or op == 14 then
    tree:add_le(f.nonce, b(0, 8))
    tree:add_le(f.epoch, b(8, 8))
    add_from(tree, b(16, 4))
    tree:add_le(f.from_token, b(20, 4))
    add_offer(tree, b(24, 24))
    if op ~= 3 then tree:add(f.cookie, b(48, 16)) end
    add_extensions(tree, b, body_size[op])
  elseif op == 2 then
    tree:add_le(f.nonce, b(0, 8))
    tree:add(f.cookie, b(8, 16))
  elseif op == 4 then
    tree:add_le(f.nonce, b(0, 8))
    tree:add_le(f.code, b(8, 1))
  elseif op == 13 then
    tree:add_le(f.nonce, b(0, 8))
    tree:add_le(f.offset, b(8, 4))
    tree:add_le(f.ack, b(12, 4))
  elseif op == 15 then
    tree:add(f.quote, b(0, 24))
  else
    add_from(tree, b(0, 4))
    tree:add_le(f.from_token, b(4, 4))
    tree:add_le(f.seq, b(8, 8))
    tree:add_le(f.to_token, b(16, 4))
    if (op == 5 or op == 11) and whole(b, 24) then add_extensions(tree, b, 24) end
  end
end

local function fail(tree, range, pinfo, why)
  tree:add(f.malformed, range, why):set_generated()
  tree:add_proto_expert_info(bad, "Malformed eRPC packet: " .. why)
  pinfo.cols.info = "MALFORMED " .. why
end

-- add_holes shows the list of holes in a CR, if b is one.
local function add_holes(tree, b)
  local least = 0
  for at = 0, b:len() - HOLE, HOLE do
    local word = b(at, HOLE):le_uint()
    local first, count = word % MAX_PACKETS, math.floor(word / MAX_PACKETS) + 1
    if first < least or first + count > MAX_PACKETS then return end
    least = first + count + 1
  end
  for at = 0, b:len() - HOLE, HOLE do
    local word = b(at, HOLE):le_uint()
    tree:add(f.hole_first, b(at, HOLE), word % MAX_PACKETS)
    tree:add(f.hole_count, b(at, HOLE), math.floor(word / MAX_PACKETS) + 1)
  end
end

-- add_payload shows what follows the head of a packet other than management, as far as it is
-- there: b, or nil for nothing. It returns the packet's name.
local function add_payload(tree, h, b)
  tree:add(f.data_len, h.payload):set_generated()
  if h.type == ERR and b and b:len() >= h.msgsize then
    return "ERR " .. add_error(tree:add(b, "Error"), b)
  end
  if b then tree:add(f.data, b) end
  if b and h.type == CR and b:len() == h.payload then add_holes(tree, b) end
  return types[h.type]
end

-- show_bundle shows a bundle, whose header is there, and each packet inside.
local function show_bundle(tree, tvb, pinfo, size)
  local head = tree:add(tvb(0, BUNDLE_HEADER), "Header of the bundle")
  for _, x in ipairs({ { f.version, 0, 1 }, { f.type, 0, 1 }, { f.count, 1, 1 },
    { f.content, 2, 2 }, { f.session, 8, 3 }, { f.loop, 11, 1 }, { f.phase, 11, 1 },
    { f.token, 12, 4 } }) do
    head:add_le(x[1], tvb(x[2], x[3]))
  end
  local b, why = read_bundle(tvb, size)
  if why then return fail(tree, tvb(0, BUNDLE_HEADER), pinfo, why) end
  local names = {}
  for i, h in ipairs(b) do
    local item = tree:add(tvb(h.at, h.head + h.payload), "Packet " .. i)
    item:add(f.another, h.first)
    item:add(f.whole, h.first)
    add_header(item, h, learn(pinfo, h, i))
    names[i] = add_payload(item, h, h.payload > 0 and tvb(h.at + h.head, h.payload) or nil)
    item:append_text(": " .. names[i])
  end
  tree:add(f.padding, size - b.stop):set_generated()
  local list = table.concat(names, ", ", 1, math.min(#names, 8)) .. (#names > 8 and ", ..." or "")
  pinfo.cols.info = string.format("BUNDLE packets=%d content=%d padding=%d: %s", b.count, b.content,
    size - b.stop, list)
end

-- is_sealed reports whether tvb begins as a sealed packet does.
local function is_sealed(tvb)
  return tvb:len() >= SEALED_HEAD and tvb(0, 1):uint() == SEALED_VERSION * 16 + SEALED
end

-- unseal returns the packet in a sealed one, nil if erpckeys.lua is not there or does not open it.
local function unseal(tvb, pinfo)
  local keys = package.loaded.erpckeys
  return keys and keys.open(tvb, pinfo) or nil
end

-- add_sealed shows what a sealed packet says in the clear.
local function add_sealed(tree, tvb)
  tree = tree:add(tvb(0, SEALED_HEAD), "Clear part")
  tree:add_le(f.counter, tvb(1, 7))
  tree:add_le(f.index, tvb(8, 3))
  tree:add(f.sealed_loop, tvb(11, 1))
  tree:add(f.sealed_phase, tvb(11, 1))
end

-- show_sealed shows a sealed packet that is not opened.
local function show_sealed(tree, tvb, pinfo)
  tree:add(f.version, tvb(0, 1))
  tree:add(f.type, tvb(0, 1))
  add_sealed(tree, tvb)
  if tvb:len() > SEALED_HEAD then tree:add(f.encrypted, tvb(SEALED_HEAD)) end
  local loop = tvb(11, 1):uint() % 128
  pinfo.cols.info = string.format("SEALED counter=%s index=%06x%s", tostring(tvb(1, 7):le_uint64()),
    tvb(8, 3):le_uint(), loop > 0 and " loop=" .. loop or "")
end

function erpc.dissector(tvb, pinfo, root)
  local there = tvb:len()
  pinfo.cols.protocol = "eRPC"
  local tree
  if is_sealed(tvb) then
    local plain = unseal(tvb, pinfo)
    tree = root:add(erpc, plain and plain() or tvb())
    if not plain then
      show_sealed(tree, tvb, pinfo)
      return there
    end
    add_sealed(tree, tvb)
    tvb = plain
  else
    tree = root:add(erpc, tvb())
  end
  local size = tvb:reported_len()
  if tvb:len() < least(tvb) then
    local short = size < least(tvb)
    fail(tree, tvb(), pinfo, short and "packet shorter than a header" or "cut short by the capture")
    return there
  end
  if is_bundle(tvb) then
    show_bundle(tree, tvb, pinfo, size)
    return there
  end
  local h = read_header(tvb, size)
  local head = tree:add(tvb(0, HEADER), "Header")
  head:add(f.version, tvb(0, 1))
  local why = check(tvb, h)
  if h.type == MGMT and tvb:len() >= HEADER + 20 then h.from = tvb(HEADER + 16, 4):le_uint() end
  add_header(head, h, not why and learn(pinfo, h, 0) or nil)
  if is_refusal(tvb) then
    refusal(tree, tvb, pinfo)
    return there
  elseif why then
    fail(tree, tvb(0, HEADER), pinfo, why)
    return there
  end
  local name, data = types[h.type], h.payload
  if h.type == MGMT then
    local op, msgsize = ops[h.reqtype], h.msgsize
    name, data = "MGMT " .. op, h.payload - msgsize
    if tvb:len() >= HEADER + msgsize then
      add_body(tree:add(tvb(HEADER, msgsize), "Body of " .. op), tvb(HEADER, msgsize), h.reqtype)
    end
    tree:add(f.padding, data):set_generated()
  else
    name = add_payload(tree, h, tvb:len() > HEADER and tvb(HEADER) or nil)
  end
  pinfo.cols.info = string.format("%s session=%s req=%s pkt=%d size=%d data=%d", name,
    session_text(h.session_field), tostring(h.reqnum),
    h.pktnum, h.msgsize, data)
  return there
end

-- Any port: a sound header, and with it the conversation.
local function heuristic(tvb, pinfo, root)
  local size = tvb:reported_len()
  if is_sealed(tvb) then
    if not unseal(tvb, pinfo) then return false end
  elseif tvb:len() < least(tvb) then return false
  elseif is_bundle(tvb) and not read_bundle(tvb, size) or not is_bundle(tvb) and
    not is_refusal(tvb) and check(tvb, read_header(tvb, size)) then
    return false
  end
  pinfo.conversation = erpc
  erpc.dissector(tvb, pinfo, root)
  return true
end

erpc:register_heuristic("udp", heuristic)

local ports, port = DissectorTable.get("udp.port"), nil
ports:add_for_decode_as(erpc)

-- Called at the start too.
function erpc.init()
  asked, ends, found = {}, {}, {}
  local keys = package.loaded.erpckeys
  if keys then keys.load(erpc.prefs.keylog) end
  if port == erpc.prefs.port then return end
  if port then ports:remove(port, erpc) end
  port = erpc.prefs.port
  if port ~= 0 then ports:add(port, erpc) end
end
