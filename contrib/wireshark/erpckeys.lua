-- Opens packets of secure eRPC sessions for erpc.lua, by the secrets of a key log:
--
--   tshark -X lua_script:erpckeys.lua -X lua_script:erpc.lua -o erpc.keylog:keys -r sealed.pcap
--
-- or both files in the folder "Personal Lua Plugins", and the log's name in the preferences of the
-- protocol. The rules are those of package security: its key log, its key schedule, and the
-- record layer. Lua in Wireshark 4.0 has no ciphers, so they are here, in plain Lua: AES-128-GCM
-- (NIST SP 800-38D) and HKDF with SHA-256 (RFC 5869). It opens some hundred packets a second, and
-- none of ChaCha20-Poly1305, which sides without AES in the processor use: for those, and for large
-- captures, "erpc decode sealed.pcap --keylog keys --write plain.pcapng" writes plaintext.

local B = bit32 or bit
local unpack = table.unpack or unpack
local bxor, band, bor, rshift, lshift = B.bxor, B.band, B.bor, B.rshift, B.lshift
local WORD = 2 ^ 32

local function rotate(x, n) return bor(rshift(x, n), lshift(x, 32 - n)) end

-- word returns four bytes of s from i on, as a number; bytes does the reverse.
local function word(s, i)
  local a, b, c, d = s:byte(i, i + 3)
  return ((a * 256 + b) * 256 + c) * 256 + d
end
local function bytes(x)
  x = x % WORD
  return string.char(math.floor(x / 2 ^ 24), math.floor(x / 2 ^ 16) % 256,
    math.floor(x / 256) % 256, x % 256)
end

-- SHA-256 (FIPS 180-4). Its constants are the first bits of roots of the first primes.
local K, H0 = {}, {}
do
  local n, prime = 0, 2
  while n < 64 do
    local is = true
    for d = 2, math.floor(math.sqrt(prime)) do
      if prime % d == 0 then is = false break end
    end
    if is then
      n = n + 1
      local third, half = prime ^ (1 / 3), math.sqrt(prime)
      K[n] = math.floor((third % 1) * WORD)
      if n <= 8 then H0[n] = math.floor((half % 1) * WORD) end
    end
    prime = prime + 1
  end
end

local function compress(state, w)
  for i = 17, 64 do
    local x, y = w[i - 15], w[i - 2]
    local s0 = bxor(rotate(x, 7), rotate(x, 18), rshift(x, 3)) % WORD
    local s1 = bxor(rotate(y, 17), rotate(y, 19), rshift(y, 10)) % WORD
    w[i] = (w[i - 16] + s0 + w[i - 7] + s1) % WORD
  end
  local a, b, c, d, e, f, g, h = unpack(state)
  for i = 1, 64 do
    local s1 = bxor(rotate(e, 6), rotate(e, 11), rotate(e, 25)) % WORD
    local choice = bxor(band(e, f), band(WORD - 1 - e, g)) % WORD
    local t = (h + s1 + choice + K[i] + w[i]) % WORD
    local s0 = bxor(rotate(a, 2), rotate(a, 13), rotate(a, 22)) % WORD
    local most = bxor(band(a, b), band(a, c), band(b, c)) % WORD
    h, g, f, e, d, c, b, a = g, f, e, (d + t) % WORD, c, b, a, (t + s0 + most) % WORD
  end
  for i, x in ipairs({ a, b, c, d, e, f, g, h }) do state[i] = (state[i] + x) % WORD end
end

local function sha256(s)
  local rest = (55 - #s) % 64
  local padded = s .. "\128" .. ("\0"):rep(rest) .. bytes(math.floor(#s / 2 ^ 29)) .. bytes(#s * 8)
  local state = { unpack(H0) }
  for at = 1, #padded, 64 do
    local w = {}
    for i = 1, 16 do w[i] = word(padded, at + 4 * i - 4) end
    compress(state, w)
  end
  local out = {}
  for i = 1, 8 do out[i] = bytes(state[i]) end
  return table.concat(out)
end

local function hmac(key, s)
  local function pad(x)
    local block = key .. ("\0"):rep(64 - #key)
    return (block:gsub(".", function(c) return string.char(bxor(c:byte(), x)) end))
  end
  return sha256(pad(0x5C) .. sha256(pad(0x36) .. s))
end

-- expand is HKDF-Expand-Label with the prefix of this library, for at most 32 bytes.
local function expand(secret, label, n)
  label = "erpc3 " .. label
  return hmac(secret, "\0" .. string.char(n, #label) .. label .. "\0\1"):sub(1, n)
end

-- AES-128 (FIPS 197): its S-box, and tables of a column for each byte.
local S, T = {}, { {}, {}, {}, {} }
do
  local log, exp, x = {}, {}, 1
  for i = 0, 254 do
    exp[i], log[x] = x, i
    local twice = x * 2
    if twice > 255 then twice = bxor(twice, 0x11B) end
    x = bxor(twice, x)
  end
  for i = 0, 255 do
    local inverse = i == 0 and 0 or exp[(255 - log[i]) % 255]
    local s = 0x63
    for r = 0, 4 do s = bxor(s, (inverse * 2 ^ r) % 256 + math.floor(inverse * 2 ^ r / 256)) end
    S[i] = s
    local twice = s * 2
    if twice > 255 then twice = bxor(twice, 0x11B) end
    local t = ((twice * 256 + s) * 256 + s) * 256 + bxor(twice, s)
    for k = 1, 4 do
      T[k][i] = t
      t = math.floor(t / 256) + t % 256 * 2 ^ 24
    end
  end
end

-- sub returns the word of the S-box's bytes for one byte of each word, from its highest on.
local function sub(a, b, c, d)
  local high = S[rshift(a, 24)] * 256 + S[rshift(b, 16) % 256]
  return (high * 256 + S[rshift(c, 8) % 256]) * 256 + S[d % 256]
end

local function schedule(key)
  local w, round = {}, 1
  for i = 1, 4 do w[i] = word(key, 4 * i - 3) end
  for i = 5, 44 do
    local x = w[i - 1]
    if i % 4 == 1 then
      x = rotate(x, 24) % WORD
      x = bxor(sub(x, x, x, x), round * 2 ^ 24)
      round = round * 2
      if round > 255 then round = bxor(round, 0x11B) end
    end
    w[i] = bxor(w[i - 4], x) % WORD
  end
  return w
end

-- encrypt returns the four words of a block of four words.
local function encrypt(w, a, b, c, d)
  a, b = bxor(a, w[1]) % WORD, bxor(b, w[2]) % WORD
  c, d = bxor(c, w[3]) % WORD, bxor(d, w[4]) % WORD
  local T1, T2, T3, T4 = T[1], T[2], T[3], T[4]
  local function column(k, a, b, c, d)
    return bxor(T1[rshift(a, 24)], T2[rshift(b, 16) % 256], T3[rshift(c, 8) % 256], T4[d % 256],
      w[k]) % WORD
  end
  for r = 5, 37, 4 do
    a, b, c, d = column(r, a, b, c, d), column(r + 1, b, c, d, a), column(r + 2, c, d, a, b),
      column(r + 3, d, a, b, c)
  end
  local function last(k, a, b, c, d) return bxor(sub(a, b, c, d), w[k]) % WORD end
  return last(41, a, b, c, d), last(42, b, c, d, a), last(43, c, d, a, b), last(44, d, a, b, c)
end

-- powers returns H times x^0 to x^127 in GCM's field, four words each.
local function powers(w)
  local h, list = { encrypt(w, 0, 0, 0, 0) }, {}
  for i = 1, 128 do
    list[i] = h
    local a, b, c, d = unpack(h)
    local carry = d % 2
    h = { math.floor(a / 2), math.floor(b / 2) + a % 2 * 2 ^ 31, math.floor(c / 2) + b % 2 * 2 ^ 31,
      math.floor(d / 2) + c % 2 * 2 ^ 31 }
    if carry == 1 then h[1] = bxor(h[1], 0xE1000000) % WORD end
  end
  return list
end

-- ghash hashes whole blocks.
local function ghash(list, s)
  local y = { 0, 0, 0, 0 }
  for at = 1, #s, 16 do
    local a, b, c, d = 0, 0, 0, 0
    for i = 1, 4 do
      local x = bxor(y[i], word(s, at + 4 * i - 4)) % WORD
      for k = 32, 1, -1 do
        if x % 2 == 1 then
          local v = list[32 * i - 32 + k]
          a, b, c, d = bxor(a, v[1]), bxor(b, v[2]), bxor(c, v[3]), bxor(d, v[4])
        end
        x = math.floor(x / 2)
      end
    end
    y = { a % WORD, b % WORD, c % WORD, d % WORD }
  end
  return y
end

local function fill(s) return s .. ("\0"):rep(-#s % 16) end

-- gcm_open returns the plaintext, or nil. sealed ends with the tag.
local function gcm_open(key, nonce, sealed, clear)
  local text, tag = sealed:sub(1, -17), sealed:sub(-16)
  local a, b, c = word(nonce, 1), word(nonce, 5), word(nonce, 9)
  local sum = ghash(key.powers, fill(clear) .. fill(text) .. "\0\0\0\0" .. bytes(#clear * 8) ..
    "\0\0\0\0" .. bytes(#text * 8))
  local mask = { encrypt(key.words, a, b, c, 1) }
  for i = 1, 4 do
    if bxor(sum[i], mask[i]) % WORD ~= word(tag, 4 * i - 3) then return nil end
  end
  local out, padded = {}, fill(text)
  for at = 1, #text, 16 do
    local m = { encrypt(key.words, a, b, c, (at - 1) / 16 + 2) }
    for i = 1, 4 do out[#out + 1] = bytes(bxor(m[i], word(padded, at + 4 * i - 4))) end
  end
  return table.concat(out):sub(1, #text)
end

-- The record layer: the sizes of the clear part, of the tag, and of the smallest packet inside.
local CLEAR, TAG, LEAST = 12, 16, 16
local MOST_PHASES, MOST_MISSES = 8, 64

local function keys_of(secret)
  local words = schedule(expand(secret, "key", 16))
  return { secret = secret, iv = expand(secret, "iv", 12), words = words, powers = powers(words) }
end

-- phase_keys returns the keys of a phase of a line of the log; they are made when needed.
local function phase_keys(o, phase)
  while #o.phases <= phase do
    local n = #o.phases
    o.phases[n + 1] = keys_of(n == 0 and o.secret or expand(o.phases[n].secret, "ku", 32))
  end
  return o.phases[phase + 1]
end

-- little returns n bytes of s from i on, the lowest first, as a number.
local function little(s, i, n)
  local x = 0
  for k = n - 1, 0, -1 do x = x * 256 + s:byte(i + k) end
  return x
end

local function try(o, pkt, phase)
  local key = phase_keys(o, phase)
  local low, high = little(pkt, 2, 4), little(pkt, 6, 3) -- of the counter
  local nonce = key.iv:sub(1, 4) .. bytes(bxor(word(key.iv, 5), high)) ..
    bytes(bxor(word(key.iv, 9), low))
  local plain = gcm_open(key, nonce, pkt:sub(CLEAR + 1), pkt:sub(1, CLEAR))
  if plain then o.phase = math.max(o.phase or 0, phase) end
  return plain
end

-- open returns the packet in pkt, or nil if the secret of this line did not seal it. Before the
-- first packet it tries the first phases.
local function open(o, pkt)
  local odd = pkt:byte(CLEAR) >= 128 and 1 or 0
  if not o.phase then
    for phase = odd, MOST_PHASES - 1, 2 do
      local plain = try(o, pkt, phase)
      if plain then return plain end
    end
    return nil
  end
  if o.phase % 2 == odd then return try(o, pkt, o.phase) end
  return o.phase > 0 and try(o, pkt, o.phase - 1) or try(o, pkt, o.phase + 1)
end

-- The lines of the log, by the index field of what they open: several endpoints may use the same.
local log, opened = {}, {}

local keys = {}
package.loaded.erpckeys = keys -- scripts share no globals

-- load reads the lines of a key log that are of AES-128-GCM, and forgets what was before. erpc.lua
-- calls it for each file.
function keys.load(name)
  log, opened = {}, {}
  local file = name ~= "" and io.open(name)
  if not file then return end
  for text in file:lines() do
    local side, index, hex = text:match("^ERPC_(%u+)_SECRET_1 %x+ (%x+) (%x+)%s*$")
    if (side == "CLIENT" or side == "SERVER") and #index == 8 and #hex == 64 then
      local secret = hex:gsub("%x%x", function(x) return string.char(tonumber(x, 16)) end)
      local field = tonumber(index, 16)
      log[field] = log[field] or {}
      table.insert(log[field], { secret = secret, phases = {}, misses = 0 })
    end
  end
  file:close()
end

-- open returns the packet inside a sealed one as a Tvb, or nil. erpc.lua calls it for each packet
-- that is sealed. A packet is opened once: it may be shown in any order later.
function keys.open(tvb, pinfo)
  local size = tvb:len()
  if size < CLEAR + LEAST + TAG or size < tvb:reported_len() then return nil end
  local plain = opened[pinfo.number]
  if plain == nil then
    plain = false
    local pkt = tvb:raw(0, size)
    local list = log[little(pkt, 9, 4) % 2 ^ 31] or {}
    for i, o in ipairs(list) do
      if o.phase or o.misses < MOST_MISSES then
        plain = open(o, pkt) or false
        if plain then
          table.insert(list, 1, table.remove(list, i))
          break
        end
        o.misses = o.misses + 1
      end
    end
    opened[pinfo.number] = plain
  end
  return plain and ByteArray.new(plain, true):tvb("Opened eRPC packet") or nil
end
