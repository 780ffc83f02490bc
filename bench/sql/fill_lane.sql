-- The lane of jobs of a function. Its number.
INSERT INTO tickwise.lanes (namespace, queue, priority, requires) VALUES ('default', 'default', 5, '{function:*,task:function}')
ON CONFLICT (namespace, queue, priority, requires) DO UPDATE SET priority = excluded.priority RETURNING lane
