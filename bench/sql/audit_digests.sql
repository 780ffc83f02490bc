-- The least that a check can cost: the digest of each entry, as it is sealed.
SELECT count(sha256(convert_to(json_build_array(entry, (date_part('epoch', at) * 1000000)::bigint, namespace, action, caller_kind, caller_id, caller,
  address, request_id, target_kind, target, targets, before, after, detail)::text, 'UTF8')))
FROM tickwise.audit
