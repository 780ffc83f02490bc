-- What was delivered is long ago: nothing gathers the next notice.
UPDATE tickwise.notices SET made_at = made_at - interval '1 day', due = due - interval '1 day' WHERE state = 'delivered'
